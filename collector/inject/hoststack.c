/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/inject/inject.h"

void argus_hoststack_start(void)
{
}
