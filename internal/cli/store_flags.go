package cli

import (
	"net/url"
	"strings"

	"github.com/alecthomas/kong"
)

// commandLineFlags returns the flags of every command that were given on the command line, by name.
// Values from the environment and from files also hold for the next command; typed ones do not.
func commandLineFlags(parsed *kong.Context) map[string]bool {
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

// storeFlags returns the flags with which a suggested command finds the same store and profile as
// this one, followed by a space; it is empty when no flag is needed. A value that may contain a
// password is never printed: its variable is printed instead (C11).
func (a *app) storeFlags() string {
	var at []string
	if a.typed["profile"] {
		at = append(at, "--profile "+quote(a.flags.Profile))
	}
	if a.typed["server"] {
		at = append(at, "--server "+withoutPassword(a.flags.Server, "PERDURE_SERVER"))
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

// withoutPassword returns a URL quoted for a shell, or its variable where the URL contains a user
// name or a password.
func withoutPassword(text, variable string) string {
	if u, err := url.Parse(text); err != nil || u.User != nil {
		return `"$` + variable + `"`
	}
	return quote(text)
}

// urlWithoutPassword returns a text that should be a URL, for a message.
func urlWithoutPassword(text string) string {
	if u, err := url.Parse(text); err == nil {
		return u.Redacted()
	}
	return "the value of --server or PERDURE_SERVER"
}

// checkStoreFlags refuses --database and --server with an empty value, as from an unset shell
// variable: the command would silently use another store.
func (a storeChoice) checkStoreFlags() error {
	switch {
	case a.typed["database"] && a.flags.Database == "":
		return usageError("--database is empty", "set PERDURE_DATABASE to the URL of the database, including its password")
	case a.typed["server"] && a.flags.Server == "":
		return usageError("--server is empty", "set PERDURE_SERVER to the URL of the server")
	}
	for _, scheme := range []string{"http://", "https://", "unix:///"} {
		if a.flags.Server == "" || strings.HasPrefix(a.flags.Server, scheme) && len(a.flags.Server) > len(scheme) {
			return nil
		}
	}
	return usageError("not a server URL: "+urlWithoutPassword(a.flags.Server), "use http://HOST:PORT or unix:///PATH")
}
