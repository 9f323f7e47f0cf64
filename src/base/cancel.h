// The library's CancelToken, where the rest of the program looks for it.
#pragma once

#include "fathom/cancel.h"
