// SPDX-License-Identifier: GPL-2.0
/* Until v6.12 a symbol namespace is a bare token. */
#include <linux/module.h>

MODULE_IMPORT_NS(PFRAG);
