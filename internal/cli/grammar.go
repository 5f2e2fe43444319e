package cli

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/perdure/perdure/internal/cli/settings"
)

// grammarCommands lists the commands that need the full grammar: they describe all other commands,
// or read the configuration files.
const grammarCommands = "help config __complete"

// noun returns the command that the arguments name first. It is empty where the full grammar is
// needed: the arguments name no command or one of grammarCommands, or configuration files are in
// use, whose keys belong to all commands.
func (a commandParser) noun() string {
	if len(a.settings.count)+len(a.settings.problems) > 0 {
		return ""
	}
	for i := 0; i < len(a.Args); i++ {
		name, _, valued := strings.Cut(a.Args[i], "=")
		switch {
		case !strings.HasPrefix(name, "-"):
			if slices.Contains(strings.Fields(grammarCommands), name) {
				return ""
			}
			return name
		case !valued && !slices.Contains(boolFlags(), name):
			i++ // its value
		}
	}
	return ""
}

// boolFlags returns the flags of every command that take no value.
func boolFlags() (names []string) {
	for _, field := range reflect.VisibleFields(reflect.TypeFor[flags]()) {
		if field.Type.Kind() == reflect.Bool {
			names = append(names, "--"+settings.FlagName(field.Name))
		}
	}
	return append(names, "--help", "-h")
}

// isListCommand reports whether the arguments ask only for the list of commands. With configuration
// files it is false, since their keys belong to all commands.
func (a commandParser) isListCommand() bool {
	return len(a.settings.count)+len(a.settings.problems) == 0 && len(a.Args) == 1 &&
		(a.Args[0] == "--help" || a.Args[0] == "-h")
}

// grammar returns the grammar that the arguments are parsed with.
func (a commandParser) grammar() reflect.Value {
	if a.isListCommand() {
		return reflect.New(listed(reflect.TypeFor[commandLine]()))
	}
	return grammarOf(a.noun())
}

// listed returns a struct of commands without their arguments and flags, which the list of commands
// does not show. The flags of every command stay.
func listed(commands reflect.Type) reflect.Type {
	var fields []reflect.StructField
	for _, field := range reflect.VisibleFields(commands) {
		_, command := field.Tag.Lookup("cmd")
		switch {
		case len(field.Index) > 1: // field of an embedded struct
		case command:
			fields = append(fields, reflect.StructField{Name: field.Name, Type: listed(field.Type), Tag: field.Tag})
		case field.Name == "Flags":
			fields = append(fields, reflect.StructField{Name: field.Name, Type: field.Type, Tag: field.Tag})
		}
	}
	return reflect.StructOf(fields)
}

// grammarOf returns a struct with the flags of every command and one command, or all commands.
// Building the full grammar takes kong longer than most commands need for everything else.
func grammarOf(noun string) reflect.Value {
	whole := reflect.TypeFor[commandLine]()
	var fields []reflect.StructField
	for _, field := range reflect.VisibleFields(whole) {
		if len(field.Index) > 1 {
			continue // field of an embedded struct
		}
		name, named := field.Tag.Lookup("name")
		if !named {
			name = settings.FlagName(field.Name)
		}
		aliases := strings.Split(field.Tag.Get("aliases"), ",")
		if field.Name == "Flags" || name == noun || noun != "" && slices.Contains(aliases, noun) {
			fields = append(fields, reflect.StructField{Name: field.Name, Type: field.Type, Tag: field.Tag})
		}
	}
	if len(fields) < 2 { // no such command: the error then lists the commands that exist
		return reflect.New(whole)
	}
	return reflect.New(reflect.StructOf(fields))
}

// options returns how the grammar is built, and where help and errors are written.
func (a commandParser) options(exit func(int)) []kong.Option {
	return append(a.Program.options(), kong.Writers(a.out, a.Stderr), kong.Exit(exit), kong.Vars{"data": a.DataDir},
		kong.PostBuild(settings.PrepareLimits), kong.PostBuild(ignoreEmptyVariables), kong.Help(printHelp))
}

// ignoreEmptyVariables is an option of kong: an environment variable without a value counts as not
// set. Files of services and containers often set variables this way. It asks the environment of
// the process, as kong does.
func ignoreEmptyVariables(k *kong.Kong) error {
	return kong.Visit(k.Model, func(node kong.Visitable, next kong.Next) error {
		if flag, ok := node.(*kong.Flag); ok {
			flag.Tag.Envs = slices.DeleteFunc(slices.Clone(flag.Envs), func(name string) bool {
				value, set := os.LookupEnv(name)
				return set && value == ""
			})
		}
		return next(nil)
	})
}

// parse parses the command line with a grammar. An error is always reported by the full grammar. It
// returns no context and no error when help was asked for and printed, and no flags when the
// grammar itself is broken.
func (a commandParser) parse(line reflect.Value) (*kong.Context, *flags, error) {
	helped := false
	var err error
	if a.kong, err = kong.New(line.Interface(), a.options(func(int) { helped = true })...); err != nil {
		return nil, nil, fmt.Errorf("read the grammar: %w", err)
	}
	whole := line.Type() == reflect.TypeFor[*commandLine]()
	if whole {
		a.settings.problems = append(a.settings.problems,
			settings.Apply(a.kong.Model.Node, a.settings.count, a.Env, keepNearest)...)
	}
	parsed, err := a.kong.Parse(a.Args)
	switch {
	case a.out.err != nil: // the help could not be written
		return nil, nil, a.out.err
	case helped:
		return nil, nil, nil
	case err != nil && !whole:
		return a.parse(grammarOf(""))
	}
	return parsed, line.Elem().FieldByName("Flags").Addr().Interface().(*flags), err
}
