// Everything polyhead offers.
#pragma once

#include "polyhead/attention.h"
#include "polyhead/info.h"
#include "polyhead/version.h"
