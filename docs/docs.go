// Package docs holds the pages of this folder, so that the binary has them without a network. It
// imports nothing of ours. The one thing to know: a page that is added to one of these folders is
// in the binary, in the next build.
package docs

import "embed"

// Files has the pages by their paths below this folder, as how-to/approvals.md.
//
//go:embed *.md coming-from/*.md how-to/*.md reference/*.md decisions/*.md spec/*.md contributing/*.md
var Files embed.FS
