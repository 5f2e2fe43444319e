package cli

import (
	"net/url"
	"strings"

	"github.com/alecthomas/kong"
)

// typedFlags are the flags of every command that stand on a command line, by their names: what the environment and the files
// say holds for the next line, too, and what is typed only for its own.
func typedFlags(parsed *kong.Context) map[string]bool {
	if parsed == nil {
		return nil
	}
	typed := map[string]bool{}
	for _, at := range parsed.Path {
		if at.Flag != nil && !at.Resolved {
			typed[at.Flag.Name] = true
		}
	}
	return typed
}

// place is the flags by which a command that people paste finds what this one found, with a space behind; nothing where it
// does without. What may hold a password is never printed: its variable stands for it (C11).
func (a *app) place() string {
	var at []string
	if a.typed["profile"] {
		at = append(at, "--profile "+quote(a.flags.Profile))
	}
	if a.typed["server"] {
		at = append(at, "--server "+public(a.flags.Server, "PERDURE_SERVER"))
	}
	if a.flags.Server == "" && a.flags.Data != a.DataDir {
		at = append(at, "--data "+quote(a.flags.Data))
	}
	if a.flags.Server == "" && a.typed["database"] {
		at = append(at, `--database "$PERDURE_DATABASE"`)
	}
	if len(at) == 0 {
		return ""
	}
	return strings.Join(at, " ") + " "
}

// public is a URL as an argument of a shell, or the variable that holds it, where a name or a password is in it.
func public(text, variable string) string {
	if u, err := url.Parse(text); err != nil || u.User != nil {
		return `"$` + variable + `"`
	}
	return quote(text)
}

// nowhere refuses a place that is typed and empty, as a variable is that nobody set: the command would find something else.
func (a *app) nowhere() error {
	switch {
	case a.typed["database"] && a.flags.Database == "":
		return misuse("--database is empty", "PERDURE_DATABASE holds the URL of the database, with its password")
	case a.typed["server"] && a.flags.Server == "":
		return misuse("--server is empty", "PERDURE_SERVER holds the URL of the server")
	}
	return nil
}
