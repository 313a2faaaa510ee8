"""Makes texts and icons of catalogs safe for pages: Markdown to HTML (`text`), and SVG (`svg`)."""
