"""The sidecar in a browser: who is let in, the page, and a sidecar process per tab."""
