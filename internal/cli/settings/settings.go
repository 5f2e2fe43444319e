// Package settings implements the configuration files of the command line: that of the user, and
// that of the project.
//
// It may import the root, kong and yaml. The one thing to know: a file only changes the default of
// a flag. The precedence is: command line, environment, project file, user file, built-in default.
package settings

import (
	"bytes"
	"cmp"
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
	// ProjectFile is searched for in the current folder and its parents, up to the folder with
	// .git.
	ProjectFile = ".perdure.yaml"
	// maxBytes is the maximum size of a file, and maxDepth its maximum nesting.
	maxBytes, maxDepth = 1 << 20, 8
)

// The keys of a file that are not flags.
const (
	profileKey  = "profile"  // default profile; only in the user file
	profilesKey = "profiles" // by name: settings that override those of the same file
)

// Setting is the value of one flag in a file.
type Setting struct {
	Key     string   // of the flag: its command and its name, joined with dots
	Values  []string // one, unless List is true
	List    bool
	Path    string // of the file
	Line    int
	Project bool   // from the project file
	Profile string // profile that contains it; empty: none
}

// Origin returns where a setting is defined.
func (s Setting) Origin() string {
	at := fmt.Sprintf("%s:%d", s.Path, s.Line)
	if s.Profile != "" {
		at += " (profile " + s.Profile + ")"
	}
	return at
}

// Problem is an invalid setting. It is Invalid.
type Problem struct {
	Origin  string `json:"origin"`
	Message string `json:"what"`
	Hint    string `json:"todo,omitempty"`
}

// Error returns the position and the error.
func (f Problem) Error() string { return f.Origin + ": " + f.Message }

// Unwrap returns perdure.Invalid.
func (f Problem) Unwrap() error { return perdure.Invalid }

// Files are the paths of the two files. Empty: the file does not exist.
type Files struct{ Project, User string }

// Find finds the configuration files for a working folder. config is the folder of user
// configurations ($XDG_CONFIG_HOME); empty: none.
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

// Load reads the files and returns the effective settings, by key, and all errors. An empty profile
// means the one that the user file names.
func Load(files Files, profile string) (map[string]Setting, []Problem) {
	user, faults := read(files.User, false)
	project, more := read(files.Project, true)
	faults = append(faults, more...)
	profile = cmp.Or(profile, user.profile)
	if profile != "" && !slices.Contains(user.names, profile) && !slices.Contains(project.names, profile) {
		faults = append(faults, Problem{
			Origin: "profile " + profile, Message: "unknown profile",
			Hint: "the profiles are " +
				strings.Join(slices.Compact(slices.Sorted(slices.Values(append(user.names, project.names...)))), ", "),
		})
	}
	count := map[string]Setting{}
	for _, f := range []file{user, project} {
		for _, in := range []string{"", profile} {
			for _, s := range f.settings {
				if s.Profile != in {
					continue
				}
				if of, said := count[s.Key]; said && s.Project && !of.Project && contains(rules, s.Key) {
					// it extends the list of the user, and removes nothing
					s.Values = slices.Compact(slices.Sorted(slices.Values(slices.Concat(of.Values, s.Values))))
				}
				count[s.Key] = s
			}
		}
	}
	return count, faults
}

// file is the content of a file.
type file struct {
	path     string
	project  bool
	settings []Setting
	profile  string   // default profile
	names    []string // of its profiles
	problems []Problem
}

func read(path string, project bool) (file, []Problem) {
	f := file{path: path, project: project}
	if path == "" {
		return f, nil
	}
	text, err := readAll(path)
	if err != nil {
		return f, []Problem{{Origin: path, Message: err.Error()}}
	}
	var doc yaml.Node
	if err := yaml.NewDecoder(bytes.NewReader(text)).Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return f, nil
		}
		return f, []Problem{{Origin: path, Message: strings.TrimPrefix(err.Error(), "yaml: "),
			Hint: "write YAML with one setting per line, such as  color: never"}}
	}
	f.walk(doc.Content[0], position{})
	return f, f.problems
}

func readAll(path string) ([]byte, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	text, err := io.ReadAll(io.LimitReader(in, maxBytes+1))
	if err == nil && len(text) > maxBytes {
		err = fmt.Errorf("the file is larger than %d bytes", maxBytes)
	}
	return text, err
}

// position is a position in a file.
type position struct {
	key     string // of the mapping
	profile string
	depth   int
}

// addProblem records an error at a node.
func (f *file) addProblem(n *yaml.Node, todo, format string, args ...any) {
	f.problems = append(f.problems, Problem{Origin: fmt.Sprintf("%s:%d", f.path, n.Line), Message: fmt.Sprintf(format, args...),
		Hint: todo})
}

// walk reads a mapping of settings.
func (f *file) walk(n *yaml.Node, at position) {
	if n.Kind != yaml.MappingNode || at.depth > maxDepth {
		f.addProblem(n, "write  NAME: VALUE", "not a mapping of settings")
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		key := strings.TrimPrefix(at.key+"."+name.Value, ".")
		switch {
		case seen[name.Value]:
			f.addProblem(name, "remove one of them", "duplicate setting %s", key)
		case at.depth == 0 && key == profilesKey:
			f.profiles(value)
		case at.depth == 0 && key == profileKey && !f.project:
			f.profile = value.Value
		default:
			f.value(name, value, position{key, at.profile, at.depth + 1})
		}
		seen[name.Value] = true
	}
}

// profiles reads the profiles of a file.
func (f *file) profiles(n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		f.addProblem(n, "write  profiles: {NAME: {SETTING: VALUE}}", "not a mapping of profiles")
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		f.names = append(f.names, n.Content[i].Value)
		f.walk(n.Content[i+1], position{profile: n.Content[i].Value, depth: 1})
	}
}

// value reads the value of a setting.
func (f *file) value(name, n *yaml.Node, at position) {
	s := Setting{Key: at.key, Path: f.path, Line: name.Line, Project: f.project, Profile: at.profile}
	switch n.Kind {
	case yaml.MappingNode:
		f.walk(n, at)
		return
	case yaml.ScalarNode:
		if n.Tag == "!!null" {
			f.addProblem(n, "give it a value, or remove it", "%s has no value", at.key)
			return
		}
		s.Values = []string{n.Value}
	case yaml.SequenceNode:
		s.List = true
		for _, element := range n.Content {
			if element.Kind != yaml.ScalarNode {
				f.addProblem(element, "write  ["+`a, b`+"]", "%s is not a list of words", at.key)
				return
			}
			s.Values = append(s.Values, element.Value)
		}
	default:
		f.addProblem(n, "write the value itself", "%s is an alias", at.key)
		return
	}
	f.settings = append(f.settings, s)
}
