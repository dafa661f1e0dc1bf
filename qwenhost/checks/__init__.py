"""The questions: pure functions from facts and expectations to judgements, one file per subject."""
