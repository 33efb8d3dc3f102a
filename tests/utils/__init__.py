"""Progress lines, summaries of models, event files."""
