"""Why a peer does otherwise than bearerd: one reason, and the inputs that it explains."""

REASONS = []


def attach(rows):
    by_title = {row.title: row for row in rows}
    for names, reason, titles in REASONS:
        for title in titles:
            for name in names.split():
                assert name not in by_title[title].explanations, f"{name} has two reasons for {title}"
                by_title[title].explanations[name] = reason
