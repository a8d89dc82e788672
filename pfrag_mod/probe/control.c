// SPDX-License-Identifier: GPL-2.0
/* Must compile on every kernel. */
#include <linux/mm.h>
#include <linux/module.h>

struct page *pfrag_probe(const void *va);
struct page *pfrag_probe(const void *va)
{
	return virt_to_head_page(va);
}
