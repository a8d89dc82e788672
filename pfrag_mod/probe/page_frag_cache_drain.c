// SPDX-License-Identifier: GPL-2.0
/* From v6.9 on a page_frag_cache drains itself. */
#include <linux/skbuff.h>

void pfrag_probe(struct page_frag_cache *nc);
void pfrag_probe(struct page_frag_cache *nc)
{
	page_frag_cache_drain(nc);
}
