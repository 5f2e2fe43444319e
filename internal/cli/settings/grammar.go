package settings

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Key is a flag that a file may set.
type Key struct {
	Name    string
	Flag    *kong.Flag
	Project bool     // the project's file may set it, too
	Envs    []string // variables that go over a file
}

// once are words for one time: to say them for ever would be to say nothing.
const once = "help yes dry-run profile happened did-not-happen run-again take-over remove no-wait"

// harmless are what a project's file may set. Whoever wrote a project must not decide where keys and data go, nor what may be
// done on this machine.
const harmless = "color no-input time-format run.model run.instructions run.soft-budget run.ask run.deny run.ask-untrusted"

// rules are lists of what a person is asked about, and of what never runs. A project's file adds to them.
const rules = "run.ask run.deny"

// besides are variables that a command reads itself.
func besides(name string) []string {
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

// Keys returns what may be set, by its names.
func Keys(root *kong.Node) map[string]Key {
	all := map[string]Key{}
	collect(root, "", all)
	return all
}

func collect(n *kong.Node, path string, all map[string]Key) {
	for _, flag := range n.Flags {
		key := strings.TrimPrefix(path+"."+flag.Name, ".")
		if among(once, flag.Name) || flag.Hidden {
			continue
		}
		all[key] = Key{
			Name: key, Flag: flag, Envs: append(slices.Clone(flag.Envs), besides(flag.Name)...),
			Project: among(harmless, key) || strings.HasSuffix(key, ".output") || strings.HasSuffix(key, ".limit") && key != "budget.set.limit", // which is money
		}
	}
	for _, child := range n.Children {
		if !child.Hidden && child.Name != "api" {
			collect(child, strings.TrimPrefix(path+"."+child.Name, "."), all)
		}
	}
}

func among(words, word string) bool { return slices.Contains(strings.Fields(words), word) }

// Apply makes settings the defaults of their flags, and returns what is wrong with them. near finds the name that was meant.
func Apply(root *kong.Node, count map[string]Setting, getenv func(string) string, near func(name string, names []string) string) (faults []Fault) {
	if len(count) == 0 {
		return nil
	}
	keys := Keys(root)
	for _, name := range slices.Sorted(maps.Keys(count)) {
		s := count[name]
		key, known := keys[name]
		switch text, fault := s.text(key, known); {
		case !known:
			todo := "perdure config schema lists what may be set"
			if meant := near(name, slices.Sorted(maps.Keys(keys))); meant != "" {
				todo = "did you mean " + meant + "? " + todo
			}
			faults = append(faults, Fault{s.Origin(), "there is no setting " + name, todo})
		case fault != nil:
			faults = append(faults, *fault)
		case !slices.ContainsFunc(key.Envs, func(env string) bool { return getenv(env) != "" }):
			key.Flag.Default, key.Flag.HasDefault, key.Flag.Required = text, true, false
		}
	}
	return faults
}

// text is a setting as it would be typed, or what keeps it from being obeyed.
func (s Setting) text(key Key, known bool) (string, *Fault) {
	if !known {
		return "", nil
	}
	flag := key.Flag
	wrong := func(todo, format string, args ...any) (string, *Fault) {
		return "", &Fault{s.Origin(), s.Key + ": " + fmt.Sprintf(format, args...), todo}
	}
	if s.Project && !key.Project {
		return wrong("set it in the file of your own, or type it", "a project may not say this: whoever wrote it would decide where keys and data go, or what may be done here")
	}
	if s.Project && key.Name == "run.model" && strings.ContainsAny(strings.Join(s.Values, ""), "@") {
		return wrong("name the server in the file of your own", "a project may not say which server is sent your key")
	}
	if s.Project && key.Name == "run.model" && strings.HasPrefix(strings.TrimSpace(strings.Join(s.Values, "")), "scripted:") {
		return wrong("type it, or name it in the file of your own", "a project may not name a script: whoever wrote it would decide which tools run, with all that you allow")
	}
	if s.Project && key.Name == "run.ask-untrusted" && !slices.Equal(s.Values, []string{"true"}) {
		return wrong("leave it out, or say true", "a project may only have a person asked about more")
	}
	if s.List && !flag.IsSlice() {
		return wrong("give it one value", "it is no list")
	}
	text := strings.Join(s.Values, "")
	if flag.IsSlice() {
		text = kong.JoinEscaped(s.Values, flag.Tag.Sep)
	}
	if flag.Enum != "" && !slices.Contains(strings.Split(flag.Enum, ","), text) && !flag.IsSlice() {
		return wrong("it is one of "+strings.Trim(flag.Enum, ","), "%q is not known", text)
	}
	scratch := reflect.New(flag.Target.Type()).Elem()
	if err := flag.Parse(kong.ScanFromTokens(kong.Token{Type: kong.FlagValueToken, Value: text}), scratch); err != nil {
		return wrong("", "%v", err)
	}
	return text, nil
}

// Schema is a JSON schema of a file.
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
	all[profileKey] = map[string]any{"type": "string", "description": "Which profile counts, where nobody names one. Of the user's file only."}
	all[profilesKey] = map[string]any{"type": "object", "description": "Settings that go over those of the same file.", "additionalProperties": settings}
	top["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	top["title"] = "Configuration of perdure"
	return top
}

func object() map[string]any {
	return map[string]any{"type": "object", "additionalProperties": false, "properties": map[string]any{}}
}

// kind is the schema of one key.
func kind(key Key) map[string]any {
	of := map[string]any{"description": key.Flag.Help}
	is := key.Flag.Target.Type()
	if is.Kind() == reflect.Pointer { // of what is something else than its zero when it is not said
		is = is.Elem()
	}
	if !key.Project {
		of["description"] = key.Flag.Help + " Not in a project's file."
	}
	switch {
	case key.Flag.IsSlice():
		of["type"], of["items"] = "array", map[string]any{"type": "string"}
	case key.Flag.IsBool():
		of["type"] = "boolean"
	case key.Flag.Enum != "":
		of["enum"] = strings.Split(key.Flag.Enum, ",")
	case is.Kind() == reflect.Int, is.Kind() == reflect.Int64 && is.String() != "time.Duration", is.Kind() == reflect.Uint64:
		of["type"] = "integer"
	default:
		of["type"] = "string"
	}
	return of
}
