// SPDX-License-Identifier: GPL-2.0
/* From v5.16 on a page whose count reached 0 goes to __folio_put(). */
#include <linux/mm.h>

void pfrag_probe(struct page *page);
void pfrag_probe(struct page *page)
{
	__folio_put(page_folio(page));
}
