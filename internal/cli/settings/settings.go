// Package settings is the room of the command line for its configuration files: that of a user, and that of a project (C12).
//
// It may import the root, kong and yaml. The one thing to know: a file only changes what a flag is when nobody says it. What is
// typed goes over the environment, that over the project's file, that over the user's, and that over the program's own word.
package settings

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/perdure/perdure"
)

const (
	// ProjectFile is looked for in the current folder, and in those above it up to the one that holds .git.
	ProjectFile = ".perdure.yaml"
	// maxBytes bounds a file, and maxDepth how deep it is nested.
	maxBytes, maxDepth = 1 << 20, 8
)

// The keys of a file that are no flags.
const (
	profileKey  = "profile"  // which profile counts, where nobody names one; of the user's file only
	profilesKey = "profiles" // name: settings that go over those of the same file
)

// Setting is what a file says of one flag.
type Setting struct {
	Key     string   // of the flag: its command and its name, with dots between
	Values  []string // one, unless List is true
	List    bool
	Path    string // of the file
	Line    int
	Project bool   // it is the project's file
	Profile string // that it stands in; empty: in none
}

// Origin is where a setting stands.
func (s Setting) Origin() string {
	at := fmt.Sprintf("%s:%d", s.Path, s.Line)
	if s.Profile != "" {
		at += " (profile " + s.Profile + ")"
	}
	return at
}

// Fault is something in a file that cannot be obeyed. It is Invalid.
type Fault struct {
	Origin string `json:"origin"`
	What   string `json:"what"`
	Todo   string `json:"todo,omitempty"`
}

// Error says where it is, and what.
func (f Fault) Error() string { return f.Origin + ": " + f.What }

// Unwrap makes it Invalid.
func (f Fault) Unwrap() error { return perdure.Invalid }

// Files are the paths of the two files. Empty: there is none.
type Files struct{ Project, User string }

// Find finds the files of somebody who works in a folder. config is the folder of the user's configuration ($XDG_CONFIG_HOME);
// empty: there is none.
func Find(folder, config string) Files {
	var found Files
	if config != "" {
		found.User = existing(filepath.Join(config, "perdure", "config.yaml"))
	}
	for dir := folder; dir != ""; dir = filepath.Dir(dir) {
		if found.Project = existing(filepath.Join(dir, ProjectFile)); found.Project != "" {
			break
		}
		if existing(filepath.Join(dir, ".git")) != "" || dir == filepath.Dir(dir) {
			break
		}
	}
	return found
}

func existing(path string) string {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return path
}

// Load reads the files and returns the settings that count, by their keys, with what is wrong. An empty profile is the one that
// the user's file names.
func Load(files Files, profile string) (map[string]Setting, []Fault) {
	user, faults := read(files.User, false)
	project, more := read(files.Project, true)
	faults = append(faults, more...)
	if profile == "" {
		profile = user.profile
	}
	if profile != "" && !slices.Contains(user.names, profile) && !slices.Contains(project.names, profile) {
		faults = append(faults, Fault{
			Origin: "profile " + profile, What: "there is no such profile",
			Todo: "the profiles are " + strings.Join(slices.Compact(slices.Sorted(slices.Values(append(user.names, project.names...)))), ", "),
		})
	}
	count := map[string]Setting{}
	for _, f := range []file{user, project} {
		for _, in := range []string{"", profile} {
			for _, s := range f.settings {
				if s.Profile != in {
					continue
				}
				if of, said := count[s.Key]; said && s.Project && !of.Project && among(rules, s.Key) {
					s.Values = slices.Compact(slices.Sorted(slices.Values(slices.Concat(of.Values, s.Values)))) // it adds to the user's, and takes none away
				}
				count[s.Key] = s
			}
		}
	}
	return count, faults
}

// file is what a file says.
type file struct {
	path     string
	project  bool
	settings []Setting
	profile  string   // that it names
	names    []string // of its profiles
	faults   []Fault
}

func read(path string, project bool) (file, []Fault) {
	f := file{path: path, project: project}
	if path == "" {
		return f, nil
	}
	text, err := readAll(path)
	if err != nil {
		return f, []Fault{{Origin: path, What: err.Error()}}
	}
	var doc yaml.Node
	if err := yaml.NewDecoder(bytes.NewReader(text)).Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return f, nil
		}
		return f, []Fault{{Origin: path, What: strings.TrimPrefix(err.Error(), "yaml: "), Todo: "it is YAML: one setting a line, as  color: never"}}
	}
	f.walk(doc.Content[0], place{})
	return f, f.faults
}

func readAll(path string) ([]byte, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	text, err := io.ReadAll(io.LimitReader(in, maxBytes+1))
	if err == nil && len(text) > maxBytes {
		err = fmt.Errorf("it has more than %d bytes", maxBytes)
	}
	return text, err
}

// place is where a walk through a file stands.
type place struct {
	key     string // of the mapping
	profile string
	depth   int
}

// fault notes what is wrong with a node.
func (f *file) fault(n *yaml.Node, todo, format string, args ...any) {
	f.faults = append(f.faults, Fault{Origin: fmt.Sprintf("%s:%d", f.path, n.Line), What: fmt.Sprintf(format, args...), Todo: todo})
}

// walk reads a mapping of settings.
func (f *file) walk(n *yaml.Node, at place) {
	if n.Kind != yaml.MappingNode || at.depth > maxDepth {
		f.fault(n, "write  NAME: VALUE", "settings are names with values")
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		key := strings.TrimPrefix(at.key+"."+name.Value, ".")
		switch {
		case seen[name.Value]:
			f.fault(name, "leave one of the two out", "%s is said twice", key)
		case at.depth == 0 && key == profilesKey:
			f.profiles(value)
		case at.depth == 0 && key == profileKey && !f.project:
			f.profile = value.Value
		default:
			f.value(name, value, place{key, at.profile, at.depth + 1})
		}
		seen[name.Value] = true
	}
}

// profiles reads the profiles of a file.
func (f *file) profiles(n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		f.fault(n, "write  profiles: {NAME: {SETTING: VALUE}}", "profiles are names with settings")
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		f.names = append(f.names, n.Content[i].Value)
		f.walk(n.Content[i+1], place{profile: n.Content[i].Value, depth: 1})
	}
}

// value reads what a name stands for.
func (f *file) value(name, n *yaml.Node, at place) {
	s := Setting{Key: at.key, Path: f.path, Line: name.Line, Project: f.project, Profile: at.profile}
	switch n.Kind {
	case yaml.MappingNode:
		f.walk(n, at)
		return
	case yaml.ScalarNode:
		if n.Tag == "!!null" {
			f.fault(n, "give it a value, or leave it out", "%s has no value", at.key)
			return
		}
		s.Values = []string{n.Value}
	case yaml.SequenceNode:
		s.List = true
		for _, element := range n.Content {
			if element.Kind != yaml.ScalarNode {
				f.fault(element, "write  ["+`a, b`+"]", "%s is a list of words", at.key)
				return
			}
			s.Values = append(s.Values, element.Value)
		}
	default:
		f.fault(n, "write the value itself", "%s has no value of its own", at.key)
		return
	}
	f.settings = append(f.settings, s)
}
