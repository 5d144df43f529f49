"""Tables, drawings, HTML and text; nothing here knows a notebook."""
