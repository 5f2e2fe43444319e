package cli

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/perdure/perdure/docs"
	"github.com/perdure/perdure/internal/cli/settings"
)

// TestC15Verbs checks that the help of each noun, which the command list and the manual show, has
// every verb.
func TestC15Verbs(t *testing.T) {
	t.Parallel()
	parser, err := kong.New(&commandLine{}, commandParser{&app{}}.options(func(int) {})...)
	if err != nil {
		t.Fatal(err)
	}
	for _, noun := range parser.Model.Children {
		_, told, listed := strings.Cut(strings.TrimSuffix(noun.Help, "."), ": ")
		if noun.Hidden || len(noun.Children) == 0 || !listed {
			continue
		}
		verbs := strings.Split(told, ", ")
		var want []string
		for _, verb := range noun.Children {
			if !verb.Hidden {
				want = append(want, verb.Name)
			}
		}
		for _, verb := range want {
			if !slices.Contains(verbs, verb) {
				t.Errorf("the help of %s does not tell of %s: %s", noun.Name, verb, noun.Help)
			}
		}
		for _, verb := range verbs {
			if !slices.Contains(want, verb) {
				t.Errorf("the help of %s tells of %s, which is not there", noun.Name, verb)
			}
		}
	}
}

// TestC15Environment checks that help environment and the page about the command line have the same
// variables, including each variable of a flag.
func TestC15Environment(t *testing.T) {
	t.Parallel()
	page, err := docs.Files.ReadFile("reference/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Environment\n")
	name := regexp.MustCompile(`^[A-Z][A-Z0-9_]+`)
	told, written := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(environment) {
		if found := name.FindString(line); found != "" {
			told[found] = true
		}
	}
	for line := range strings.Lines(section) {
		if cells := strings.Split(line, " | "); strings.HasPrefix(line, "| `") {
			for _, word := range strings.Split(cells[0], "`") {
				if found := name.FindString(word); found != "" {
					written[found] = true
				}
			}
		}
	}
	for _, node := range leaves(t) {
		for at := node; at != nil; at = at.Parent {
			for _, flag := range at.Flags {
				if settings.IsLimit(flag) {
					continue // one line is about all of them, and the topic limits lists them
				}
				for _, env := range flag.Envs {
					written[env] = true
				}
			}
		}
	}
	if len(told) < 10 || len(written) < 10 {
		t.Fatalf("only %d and %d variables were found", len(told), len(written))
	}
	for one := range written {
		if !told[one] {
			t.Errorf("help environment does not tell of %s", one)
		}
	}
	for one := range told {
		if !written[one] {
			t.Errorf("docs/reference/cli.md does not tell of %s", one)
		}
	}
}

// TestC01HelpUnread: help that could not be printed is not a success, and not a usage error.
func TestC01HelpUnread(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"", "--help", "help", "session --help", "help session", "help formatting", "help exit-codes", "version", "session list -o json"} {
		var talk strings.Builder
		code := Main(t.Context(), Dependencies{Args: strings.Fields(args), Stdout: full{}, Stderr: &talk, Stdin: strings.NewReader(""), DataDir: "/data", Log: quietLog, Open: func(context.Context, OpenOptions) (Engine, error) { return &scene{}, nil }})
		if code != exitError || !strings.Contains(talk.String(), "no space") {
			t.Errorf("perdure %s: exit code %d, want %d: %s", args, code, exitError, talk.String())
		}
	}
}
