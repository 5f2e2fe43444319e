package cli

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/perdure/perdure/internal/cli/settings"
)

// readsGrammar are the commands that tell of all the others, or need them to read the files of the configuration.
const readsGrammar = "help config __complete"

// noun is the command that a line names first. It is empty where the whole grammar is needed: no command is named, one that
// reads the grammar, or a configuration, whose keys are those of all commands.
func (a *app) noun() string {
	if len(a.settings.count)+len(a.settings.faults) > 0 {
		return ""
	}
	for i := 0; i < len(a.Args); i++ {
		name, _, valued := strings.Cut(a.Args[i], "=")
		switch {
		case !strings.HasPrefix(name, "-"):
			if slices.Contains(strings.Fields(readsGrammar), name) {
				return ""
			}
			return name
		case !valued && !slices.Contains(switches(), name):
			i++ // its value
		}
	}
	return ""
}

// switches are the flags of every command that take no value.
func switches() (names []string) {
	for _, field := range reflect.VisibleFields(reflect.TypeFor[flags]()) {
		if field.Type.Kind() == reflect.Bool {
			names = append(names, "--"+dashed(field.Name))
		}
	}
	return append(names, "--help", "-h")
}

// dashed is how kong writes the name of a field: NoInput is no-input.
func dashed(field string) string {
	var name strings.Builder
	for i, r := range field {
		if i > 0 && 'A' <= r && r <= 'Z' {
			name.WriteByte('-')
		}
		name.WriteRune(r)
	}
	return strings.ToLower(name.String())
}

// lists reports whether a line asks for the list of the commands and for nothing else. Where files of a configuration count, their
// keys are those of all commands.
func (a *app) lists() bool {
	return len(a.settings.count)+len(a.settings.faults) == 0 && len(a.Args) == 1 && (a.Args[0] == "--help" || a.Args[0] == "-h")
}

// grammar is what a line is read with.
func (a *app) grammar() reflect.Value {
	if a.lists() {
		return reflect.New(listed(reflect.TypeFor[commandLine]()))
	}
	return grammarOf(a.noun())
}

// listed is a struct of commands without what they take, of which the list of the commands says nothing. What every command has stays.
func listed(commands reflect.Type) reflect.Type {
	var fields []reflect.StructField
	for _, field := range reflect.VisibleFields(commands) {
		_, command := field.Tag.Lookup("cmd")
		switch {
		case len(field.Index) > 1: // of what is embedded
		case command:
			fields = append(fields, reflect.StructField{Name: field.Name, Type: listed(field.Type), Tag: field.Tag})
		case field.Name == "Flags":
			fields = append(fields, reflect.StructField{Name: field.Name, Type: field.Type, Tag: field.Tag})
		}
	}
	return reflect.StructOf(fields)
}

// grammarOf is a struct with what every command has and the one command, or all. To read the whole grammar takes kong longer
// than most commands take for all else (C13).
func grammarOf(noun string) reflect.Value {
	whole := reflect.TypeFor[commandLine]()
	var fields []reflect.StructField
	for _, field := range reflect.VisibleFields(whole) {
		if len(field.Index) > 1 {
			continue // of what is embedded
		}
		name, named := field.Tag.Lookup("name")
		if !named {
			name = dashed(field.Name)
		}
		if field.Name == "Flags" || name == noun {
			fields = append(fields, reflect.StructField{Name: field.Name, Type: field.Type, Tag: field.Tag})
		}
	}
	if len(fields) < 2 { // there is no such command: whoever says so names those that there are
		return reflect.New(whole)
	}
	return reflect.New(reflect.StructOf(fields))
}

// parse reads the command line with a grammar. What is wrong in it is told as the whole grammar tells it. No
// context and no error: help was asked for, and is printed. No flags: the grammar itself is wrong.
func (a *app) parse(line reflect.Value) (*kong.Context, *flags, error) {
	helped := false
	var err error
	if a.kong, err = kong.New(line.Interface(), a.options(func(int) { helped = true })...); err != nil {
		return nil, nil, fmt.Errorf("read the grammar: %w", err)
	}
	whole := line.Type() == reflect.TypeFor[*commandLine]()
	if whole {
		a.settings.faults = append(a.settings.faults, settings.Apply(a.kong.Model.Node, a.settings.count, a.Env, nearest)...)
	}
	parsed, err := a.kong.Parse(a.Args)
	switch {
	case a.out.err != nil: // of help, which nobody got
		return nil, nil, a.out.err
	case helped:
		return nil, nil, nil
	case err != nil && !whole:
		return a.parse(grammarOf(""))
	}
	return parsed, line.Elem().FieldByName("Flags").Addr().Interface().(*flags), err
}
