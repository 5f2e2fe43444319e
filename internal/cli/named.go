package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/perdure/perdure"
)

// Elsewhere says that a command names another store than the one that it would reach, and so did nothing. It is a Conflict.
type Elsewhere struct {
	What string // is named, and what would be reached instead
	Todo string // what to type
}

// Error says that nothing was done.
func (e *Elsewhere) Error() string {
	return fmt.Sprintf("%s: %s; nothing was done", perdure.Conflict, e.What)
}

// Unwrap returns the kind.
func (e *Elsewhere) Unwrap() error { return perdure.Conflict }

// nearness is how near to a command a word stands that it obeys. A nearer one counts more.
type nearness int

const (
	unsaid        nearness = iota // the program's own word
	inFile                        // of the configuration
	inEnvironment                 // a variable, or a profile that a variable names
	onLine                        // of the command, or in a profile that the line names
)

// variables are what the environment calls the flags that name a place.
func variables() map[string]string {
	return map[string]string{"data": "PERDURE_DATA", "database": "PERDURE_DATABASE", "server": "PERDURE_SERVER", "profile": "PERDURE_PROFILE"}
}

// near says where the word stands that a flag obeys, which names a place.
func (a *app) near(flag string) nearness {
	switch set, inFiles := a.settings.count[flag]; {
	case a.typed[flag]:
		return onLine
	case a.Env(variables()[flag]) != "":
		return inEnvironment
	case !inFiles:
		return unsaid
	case set.Profile != "" && a.typed["profile"]:
		return onLine
	case set.Profile != "" && a.Env(variables()["profile"]) != "":
		return inEnvironment
	}
	return inFile
}

// store is where a command finds its sessions. Where a server is named, directory and database are empty, unless they are
// named as near as the server: then it has to be the server of these, and whoever reaches it asks. A database that a variable
// names counts as near as any server, since it is named for nothing else.
func (a *app) store() (dir, database, server string) {
	dir, database, server = a.flags.Data, a.flags.Database, a.flags.Server
	if server == "" {
		return dir, database, server
	}
	if a.near("data") < a.near("server") {
		dir = ""
	}
	if a.near("database") < min(a.near("server"), inEnvironment) {
		database = ""
	}
	return dir, database, server
}

// contradicted refuses a profile that names a place, where a word that is not nearer names another one: to obey either would be to
// work in a store that the line does not name, or not alone.
func (a *app) contradicted(ctx context.Context) error {
	by := map[string]string{"data": a.flags.Data, "database": a.flags.Database, "server": a.flags.Server}
	for _, flag := range []string{"server", "database", "data"} {
		set, named := a.settings.count[flag]
		if !named || set.Profile == "" {
			continue
		}
		profile := inFile
		switch {
		case a.typed["profile"]:
			profile = onLine
		case a.Env(variables()["profile"]) != "":
			profile = inEnvironment
		}
		obeyed := inEnvironment
		if a.typed[flag] {
			obeyed = onLine
		} else if a.Env(variables()[flag]) == "" {
			continue // the profile is obeyed
		}
		if profile < obeyed || a.samePlace(ctx, flag, strings.Join(set.Values, ""), by[flag]) {
			continue
		}
		return &Elsewhere{
			What: fmt.Sprintf("profile %s names one %s, and --%s or %s another one", set.Profile, flag, flag, variables()[flag]),
			Todo: fmt.Sprintf("leave out the profile, or --%s and %s", flag, variables()[flag]),
		}
	}
	return nil
}

// samePlace reports whether two words of a flag mean one place. What cannot be found out is not the same.
func (a *app) samePlace(ctx context.Context, flag, one, other string) bool {
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

// local refuses a command that works in the data directory itself, where something else is named.
func (a *app) local(what string, flags ...string) error {
	for _, flag := range flags {
		if near := a.near(flag); near >= max(inEnvironment, a.near("data")) && near != unsaid {
			return misuse(fmt.Sprintf("%s works in a data directory itself, and --%s or %s names another store", what, flag, variables()[flag]),
				fmt.Sprintf("leave it out, or name the directory with --data, which counts more than a variable: env -u %s %s %s", variables()[flag], program, what))
		}
	}
	return nil
}
