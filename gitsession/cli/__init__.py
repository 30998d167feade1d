"""Words in, words out: one file per command, loaded on its own. What a second program could want does not live here."""
