"""Renderings of released numbers: a table as text, HTML, LaTeX and Markdown, and pages."""
