package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/perdure/perdure"
)

// StoreMismatch reports that the flags, the environment and the files of a command name different
// stores, so that it did nothing. It is a Conflict.
type StoreMismatch struct {
	What string // which store is named, and which one would be reached
	Todo string // what to type
}

// Error says that nothing was done.
func (e *StoreMismatch) Error() string {
	return fmt.Sprintf("%s: %s; nothing was done", perdure.Conflict, e.What)
}

// Unwrap returns perdure.Conflict.
func (e *StoreMismatch) Unwrap() error { return perdure.Conflict }

// precedence says where a setting comes from. A larger value overrides a smaller one.
type precedence int

const (
	inDefault     precedence = iota // the built-in default
	inFile                          // a configuration file
	inEnvironment                   // a variable, or a profile that a variable names
	onCommandLine                   // the command line, or a profile that it names
)

// variables maps the flags that choose a store to their environment variables.
func variables() map[string]string {
	return map[string]string{"data": "PERDURE_DATA", "database": "PERDURE_DATABASE", "server": "PERDURE_SERVER",
		"profile": "PERDURE_PROFILE"}
}

// precedence returns where the value of a flag comes from.
func (a storeChoice) precedence(flag string) precedence {
	switch set, inFiles := a.settings.count[flag]; {
	case a.typed[flag]:
		return onCommandLine
	case a.Env(variables()[flag]) != "":
		return inEnvironment
	case !inFiles:
		return inDefault
	case set.Profile != "" && a.typed["profile"]:
		return onCommandLine
	case set.Profile != "" && a.Env(variables()["profile"]) != "":
		return inEnvironment
	}
	return inFile
}

// store returns where a command finds its sessions. With a server, directory and database are empty
// unless they have at least the precedence of the server: then the server must be the one of that
// directory or database, and the function that connects checks this. A database from a variable has
// the precedence of any server, since the variable serves no other purpose.
func (a *app) store() (dir, database, server string) {
	dir, database, server = a.flags.Data, a.flags.Database, a.flags.Server
	if server == "" {
		return dir, database, server
	}
	if (storeChoice{a}).precedence("data") < (storeChoice{a}).precedence("server") {
		dir = ""
	}
	if (storeChoice{a}).precedence("database") < min(storeChoice{a}.precedence("server"), inEnvironment) {
		database = ""
	}
	return dir, database, server
}

// checkProfileStore refuses a profile that chooses a store where a setting of no higher precedence
// chooses another one. Obeying either would work in a store that the user did not name, or not only
// in it.
func (a storeChoice) checkProfileStore(ctx context.Context) error {
	by := map[string]string{"data": a.flags.Data, "database": a.flags.Database, "server": a.flags.Server}
	for _, flag := range []string{"server", "database", "data"} {
		set, named := a.settings.count[flag]
		if !named || set.Profile == "" {
			continue
		}
		profile := inFile
		switch {
		case a.typed["profile"]:
			profile = onCommandLine
		case a.Env(variables()["profile"]) != "":
			profile = inEnvironment
		}
		obeyed := inEnvironment
		if a.typed[flag] {
			obeyed = onCommandLine
		} else if a.Env(variables()[flag]) == "" {
			continue // the profile applies
		}
		if profile < obeyed || a.sameStore(ctx, flag, strings.Join(set.Values, ""), by[flag]) {
			continue
		}
		return &StoreMismatch{
			What: fmt.Sprintf("the profile %s sets one %s, and --%s or %s sets another", set.Profile, flag, flag,
				variables()[flag]),
			Todo: fmt.Sprintf("remove either the profile, or --%s and %s", flag, variables()[flag]),
		}
	}
	return nil
}

// sameStore reports whether two values of a flag mean the same store. It returns false when that
// cannot be determined.
func (a storeChoice) sameStore(ctx context.Context, flag, one, other string) bool {
	switch {
	case one == other:
		return true
	case flag == "data":
		abs, err := filepath.Abs(one)
		return err == nil && abs == filepath.Clean(other)
	case flag == "server":
		return strings.TrimRight(one, "/") == strings.TrimRight(other, "/")
	}
	return a.SameDatabase != nil && a.SameDatabase(ctx, one, other)
}

// checkLocal refuses a command that works on the data directory itself when another store is named.
func (a *app) checkLocal(what string, flags ...string) error {
	for _, flag := range flags {
		if near := (storeChoice{a}).precedence(flag); near >= max(inEnvironment, storeChoice{a}.precedence("data")) && near != inDefault {
			return usageError(fmt.Sprintf("%s works directly on a data directory, but --%s or %s names another store", what,
				flag, variables()[flag]),
				fmt.Sprintf("remove it, or name the directory with --data, which overrides a variable: env -u %s %s %s",
					variables()[flag], program, what))
		}
	}
	return nil
}
