// Everything polyhead offers.
#pragma once

#include "polyhead/attention.h"
#include "polyhead/cache.h"
#include "polyhead/info.h"
#include "polyhead/version.h"
