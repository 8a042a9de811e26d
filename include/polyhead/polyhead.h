// All public headers.
#pragma once

#include "polyhead/attention.h"
#include "polyhead/cache.h"
#include "polyhead/heads.h"
#include "polyhead/info.h"
#include "polyhead/layer.h"
#include "polyhead/linear.h"
#include "polyhead/model.h"
#include "polyhead/rotary.h"
#include "polyhead/text.h"
#include "polyhead/version.h"
