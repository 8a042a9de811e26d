// Everything polyhead offers.
#pragma once

#include "polyhead/attention.h"
#include "polyhead/version.h"
