package cli

import (
	"context"
	"fmt"

	"github.com/perdure/perdure/engine"
)

type fileGrep struct {
	Session    string `arg:"" help:"Session: id, unique id prefix, title, or last."`
	Pattern    string `arg:"" help:"Regular expression (RE2), matched against each line."`
	Path       string `arg:"" optional:"" help:"Directory to search, with everything below it." default:"/"`
	Glob       string `help:"Only files that match, such as '**/*.go'. Without a slash it is matched against the file name only." placeholder:"GLOB"`
	IgnoreCase bool   `short:"i" help:"Ignore the difference between upper and lower case."`
	Limit      int    `help:"Maximum number of matches, at most 1000." default:"200"`
	outputFlags
}

// Run searches files.
func (c *fileGrep) Run(ctx context.Context, a *app) error {
	if c.Pattern == "" {
		return usageError("the pattern is empty", program+" file grep SESSION PATTERN")
	}
	if c.Limit < 1 || c.Limit > 1000 {
		return usageError("--limit must be 1 to 1000", "search a smaller directory, or use --glob")
	}
	return a.onSession(ctx, c.Session, true, func(eng Engine, s engine.Session) error {
		found, err := eng.Files().Grep(ctx, s.ID, engine.FileSearch{Pattern: c.Pattern, Directory: inFiles(c.Path), Glob: c.Glob,
			IgnoreCase: c.IgnoreCase, Limit: c.Limit})
		if err != nil {
			return fileText{a}.fileNotFound(s, c.Path, err)
		}
		return c.show(ctx, a, outputObject{inFiles(c.Path), found, func() {
			for _, m := range found.Matches {
				fmt.Fprintf(a.out, "%s:%d:%s\n", a.colors.stdout.in(bold, a.text(m.Path)), m.Line, a.text(m.Text))
			}
			if found.Truncated {
				a.message("there may be more matches: search a smaller directory, or use --glob")
			}
			for _, skipped := range found.Skipped {
				a.message("not searched: %s: %s", skipped.Path, skipped.Reason)
			}
		}})
	})
}
