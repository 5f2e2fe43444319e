package settings

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Key is a flag that a configuration file can set.
type Key struct {
	Name    string
	Flag    *kong.Flag
	Project bool     // a project file can set it, too
	Envs    []string // environment variables that override files
}

// oneTimeFlags are flags of a single invocation, which make no sense in a file.
const oneTimeFlags = "help yes dry-run profile happened did-not-happen run-again take-over remove no-wait detach watch"

// projectSettings are the settings that a project file can set. The author of a project must not
// decide where keys and data are sent, nor what can be done on this machine.
const projectSettings = "color no-input time-format run.model run.instructions run.soft-budget run.ask run.deny run.ask-untrusted"

// rules are lists of tools that need approval, or are denied. A project file adds to the list of
// the user.
const rules = "run.ask run.deny"

// extraVariables returns the environment variables that a command reads itself.
func extraVariables(name string) []string {
	switch name {
	case "sandbox":
		return []string{"PERDURE_SANDBOX"}
	case "shell-deadline":
		return []string{"PERDURE_SHELL_DEADLINE"}
	case "color":
		return []string{"NO_COLOR", "CLICOLOR_FORCE"}
	}
	return nil
}

// Keys returns all settings, by name.
func Keys(root *kong.Node) map[string]Key {
	all := map[string]Key{}
	collect(root, "", all)
	return all
}

func collect(n *kong.Node, path string, all map[string]Key) {
	for _, flag := range n.Flags {
		key := strings.TrimPrefix(path+"."+flag.Name, ".")
		if contains(oneTimeFlags, flag.Name) || flag.Hidden && !IsLimit(flag) {
			continue
		}
		all[key] = Key{
			Name: key, Flag: flag, Envs: append(slices.Clone(flag.Envs), extraVariables(flag.Name)...),
			// money
			Project: contains(projectSettings, key) || strings.HasSuffix(key, ".output") || strings.HasSuffix(key, ".limit") &&
				key != "budget.set.limit",
		}
	}
	for _, child := range n.Children {
		if !child.Hidden && child.Name != "api" {
			collect(child, strings.TrimPrefix(path+"."+child.Name, "."), all)
		}
	}
}

func contains(words, word string) bool { return slices.Contains(strings.Fields(words), word) }

// Apply makes settings the defaults of their flags, and returns all errors. near returns the most
// similar name.
func Apply(root *kong.Node, count map[string]Setting, getenv func(string) string,
	near func(name string, names []string) string) (faults []Problem) {
	if len(count) == 0 {
		return nil
	}
	keys := Keys(root)
	count = JoinNamed(count, keys)
	for _, name := range slices.Sorted(maps.Keys(count)) {
		s := count[name]
		key, known := keys[name]
		switch text, fault := s.text(key, known); {
		case !known:
			todo := "perdure config schema lists all settings"
			if meant := near(name, slices.Sorted(maps.Keys(keys))); meant != "" {
				todo = "did you mean " + meant + "? " + todo
			}
			faults = append(faults, Problem{s.Origin(), "unknown setting " + name, todo})
		case fault != nil:
			faults = append(faults, *fault)
		case !slices.ContainsFunc(key.Envs, func(env string) bool { return getenv(env) != "" }):
			key.Flag.Default, key.Flag.HasDefault, key.Flag.Required = text, true, false
		}
	}
	return faults
}

// JoinNamed joins the settings NAME: VALUE below a limit that is set by name into one list.
func JoinNamed(count map[string]Setting, keys map[string]Key) map[string]Setting {
	joined := maps.Clone(count)
	for _, name := range slices.Sorted(maps.Keys(count)) {
		for parent, key := range keys {
			entry, below := strings.CutPrefix(name, parent+".")
			if s := count[name]; below && IsLimit(key.Flag) && boundsOf(key.Flag).ByName && !s.List {
				whole, exists := joined[parent]
				if !exists || s.Project { // an entry of a project file makes the list one of that file
					whole.Path, whole.Line, whole.Project, whole.Profile = s.Path, s.Line, s.Project, s.Profile
				}
				whole.Key, whole.List = parent, true
				whole.Values = append(slices.Clone(whole.Values), entry+"="+s.Values[0])
				joined[parent] = whole
				delete(joined, name)
			}
		}
	}
	return joined
}

// text returns the value of a setting in command line syntax, or an error.
func (s Setting) text(key Key, known bool) (string, *Problem) {
	if !known {
		return "", nil
	}
	flag := key.Flag
	wrong := func(todo, format string, args ...any) (string, *Problem) {
		return "", &Problem{s.Origin(), s.Key + ": " + fmt.Sprintf(format, args...), todo}
	}
	if s.Project && !key.Project {
		return wrong("set it in your user file or on the command line",
			"a project file cannot set this: its author would decide where keys and data are sent, or what can be done on this machine")
	}
	if s.Project && key.Name == "run.model" && strings.ContainsAny(strings.Join(s.Values, ""), "@") {
		return wrong("set the server in your user file", "a project file cannot decide which server receives your key")
	}
	if s.Project && key.Name == "run.model" &&
		strings.HasPrefix(strings.TrimSpace(strings.Join(s.Values, "")), "scripted:") {
		return wrong("set it in your user file or on the command line",
			"a project file cannot set a script: its author would decide which tools run with your permissions")
	}
	if s.Project && key.Name == "run.ask-untrusted" && !slices.Equal(s.Values, []string{"true"}) {
		return wrong("remove it, or set it to true", "a project file can only enable this")
	}
	if s.List && !flag.IsSlice() {
		return wrong("give a single value", "not a list")
	}
	text := strings.Join(s.Values, "")
	if flag.IsSlice() {
		text = kong.JoinEscaped(s.Values, flag.Tag.Sep)
	}
	if flag.Enum != "" && !slices.Contains(strings.Split(flag.Enum, ","), text) && !flag.IsSlice() {
		return wrong("use one of "+strings.Trim(flag.Enum, ","), "unknown value %q", text)
	}
	scratch := reflect.New(flag.Target.Type()).Elem()
	if err := flag.Parse(kong.ScanFromTokens(kong.Token{Type: kong.FlagValueToken, Value: text}), scratch); err != nil {
		todo := ""
		if IsLimit(flag) {
			err = cmp.Or(errors.Unwrap(err), err) // without the name of the flag, which is the key
			if allowed := boundsOf(flag).Allowed(); allowed != "" {
				todo = "allowed: " + allowed
			}
		}
		return wrong(todo, "%v", err)
	}
	if IsLimit(flag) {
		if fault := boundsOf(flag).Check(scratch); fault != "" {
			return wrong("", "%s", fault)
		}
	}
	return text, nil
}

// Schema returns a JSON schema of a configuration file.
func Schema(root *kong.Node) map[string]any {
	top := object()
	for _, key := range Keys(root) {
		at := top
		parts := strings.Split(key.Name, ".")
		for _, part := range parts[:len(parts)-1] {
			properties := at["properties"].(map[string]any)
			if properties[part] == nil {
				properties[part] = object()
			}
			at = properties[part].(map[string]any)
		}
		at["properties"].(map[string]any)[parts[len(parts)-1]] = kind(key)
	}
	all := top["properties"].(map[string]any)
	settings := object()
	settings["properties"] = maps.Clone(all)
	all[profileKey] = map[string]any{"type": "string", "description": "Default profile. Only in the user file."}
	all[profilesKey] = map[string]any{"type": "object", "description": "Settings that override those of the same file.",
		"additionalProperties": settings}
	top["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	top["title"] = "Configuration of perdure"
	return top
}

func object() map[string]any {
	return map[string]any{"type": "object", "additionalProperties": false, "properties": map[string]any{}}
}

// kind returns the schema of one setting.
func kind(key Key) map[string]any {
	of := map[string]any{"description": key.Flag.Help}
	is := key.Flag.Target.Type()
	if is.Kind() == reflect.Pointer { // a pointer distinguishes an unset value from zero
		is = is.Elem()
	}
	if !key.Project {
		of["description"] = key.Flag.Help + " Not in a project file."
	}
	switch {
	case key.Flag.IsSlice():
		of["type"], of["items"] = "array", map[string]any{"type": "string"}
	case key.Flag.IsBool():
		of["type"] = "boolean"
	case key.Flag.Enum != "":
		of["enum"] = strings.Split(key.Flag.Enum, ",")
	case is.Kind() == reflect.Int, is.Kind() == reflect.Int64 && is.String() != "time.Duration",
		is.Kind() == reflect.Uint64:
		of["type"] = "integer"
	default:
		of["type"] = "string"
	}
	if IsLimit(key.Flag) {
		schemaOfLimit(key.Flag, of)
	}
	return of
}
