"""The live pages: what a person looks at in a browser. They read, and never write."""
