// SPDX-License-Identifier: GPL-2.0
/* Must compile on no kernel: nobody declares this function. */
#include <linux/mm.h>

int pfrag_probe(void);
int pfrag_probe(void)
{
	return pfrag_no_kernel_declares_this(1);
}
