"""The decision service: experiments over HTTP, and a page that shows what they learn."""
