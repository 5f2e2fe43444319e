package cli

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/perdure/perdure/internal/cli/man"
)

// leaves returns every command by its path.
func leaves(t *testing.T) map[string]*kong.Node {
	t.Helper()
	parser, err := kong.New(&commandLine{}, commandParser{&app{}}.options(func(int) {})...)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*kong.Node{}
	for _, node := range parser.Model.Leaves(true) {
		all[man.Path(node)] = node
	}
	if len(all) < 40 {
		t.Fatalf("only %d commands were found", len(all))
	}
	return all
}

func has(node *kong.Node, flag string) bool {
	return slices.ContainsFunc(node.Flags, func(f *kong.Flag) bool { return f.Name == flag })
}

// TestC02EveryListAndShow checks that every command that shows objects, as determined by its verb,
// and every other command that prints an object, has the output formats for scripts. Exceptions are
// listed here with their reasons.
func TestC02EveryListAndShow(t *testing.T) {
	t.Parallel()
	others := map[string]string{
		"run": "a conversation: text, or jsonl", "session send": "likewise", "event tail": "a stream: text, or jsonl", "session tail": "likewise",
		"task watch": "likewise", "log": "the bytes of a log", "task log": "likewise", "attach": "likewise", "task attach": "likewise", "session export": "its own lines",
		"tool call": "the JSON of the tool", "serve": "a URL, until it ends", "dev": "a link, until it ends", "ui": "a link", "demo crash": "text, or json", "demo agents": "likewise", "demo approvals": "likewise", "chaos": "a table, or json", "help": "text", "completion": "a script",
		"mcp serve": "stdout belongs to the protocol", "mcp proxy": "likewise", "mcp config": "a block to paste", "mcp test": "words only", "file cat": "the bytes of a file", "file get": "likewise", "image get": "likewise", "sql dump": "SQL text", "api": "what the server answers, with --jq and --template",
		"admin backup": "text, or json", "admin restore": "likewise", "admin verify": "likewise", "admin gc": "likewise", "admin migrate": "likewise", "admin scheduler": "likewise", "admin rotate-key": "words only",
	}
	for path, node := range leaves(t) {
		verb := path[strings.LastIndex(path, " ")+1:]
		told := slices.Contains([]string{"list", "show", "ps", "report", "ledger", "check", "schema", "next", "explain", "ls"}, verb)
		var missing []string
		for _, flag := range []string{"output", "json", "jq", "template"} {
			if !has(node, flag) {
				missing = append(missing, "--"+flag)
			}
		}
		reason, other := others[path]
		switch {
		case len(missing) > 0 && (told || !other):
			t.Errorf("%s has no %s", path, strings.Join(missing, ", "))
		case len(missing) == 0 && other:
			t.Errorf("%s has all forms, and needs no reason: %q", path, reason)
		}
		delete(others, path)
	}
	if len(others) > 0 {
		t.Errorf("there are no such commands: %v", others)
	}
}

// TestC02ListsAreLimited checks that every list of things with a time has --limit and --since.
// Others are listed here with their reasons.
func TestC02ListsAreLimited(t *testing.T) {
	t.Parallel()
	named := "named things, sorted by name"
	others := map[string]string{
		"agent list": named, "harness list": named, "connection list": named, "provider list": named, "model list": named, "tool list": named,
		"value list": named, "secret list": named, "file ls": named, "sql ls": named, "egress list": "rules in order of precedence", "config list": "settings in order of precedence",
	}
	for path, node := range leaves(t) {
		verb := path[strings.LastIndex(path, " ")+1:]
		if !slices.Contains([]string{"list", "ls", "deliveries"}, verb) {
			continue
		}
		_, other := others[path]
		delete(others, path)
		if limited := has(node, "limit") && has(node, "since"); limited == other {
			t.Errorf("%s has --limit and --since: %t, want %t", path, limited, !other)
		}
	}
	if len(others) > 0 {
		t.Errorf("there are no such commands: %v", others)
	}
}

// TestC10Matrix checks that every command that changes something has --dry-run, and that
// destructive ones have --yes. Commands that change nothing, and servers, are listed.
func TestC10Matrix(t *testing.T) {
	t.Parallel()
	reads := regexp.MustCompile(`( |^)(list|show|versions|tail|log|deliveries|watch|ledger|report|next|explain|test|verify|check|schema|export|replay|ps|doctor|version|help|completion|ls|cat|get)$`)
	others := map[string]string{
		"run": "it is asked to do it", "serve": "a server", "dev": "likewise, with a directory of its own", "ui": "prints a link", "mcp serve": "a server", "mcp proxy": "a server", "mcp config": "prints", "demo crash": "in a folder of its own", "demo agents": "likewise", "demo approvals": "likewise",
		"chaos": "likewise", "attach": "only what is typed changes anything", "task attach": "likewise", "tool call": "what may run twice, outside any session", "api": "one request, as it is typed",
		"admin backup": "writes a new folder", "admin restore": "fills an empty one", "admin rotate-key": "nothing is lost by it", "admin scheduler": "likewise, it can be changed back", "webhook deliveries": "only reads", "sql query": "only reads", "sql dump": "only reads", "file grep": "only reads", "task process": "only reads",
	}
	destroys := []string{"session delete", "session move", "schedule delete", "budget remove", "task cancel", "cancel", "schedule backfill", "approve", "approval approve", "file rm", "image rm", "value delete", "secret delete", "resource release", "token revoke", "webhook delete", "agent delete", "harness delete", "provider delete", "connection delete", "doctor"}
	for path, node := range leaves(t) {
		_, other := others[path]
		delete(others, path)
		if !reads.MatchString(path) && !other && !has(node, "dry-run") {
			t.Errorf("%s has no --dry-run", path)
		}
		if asks := slices.Contains(destroys, path); asks != has(node, "yes") {
			t.Errorf("%s: has --yes: %t, want %t", path, !asks, asks)
		}
	}
	if len(others) > 0 {
		t.Errorf("there are no such commands: %v", others)
	}
}

// TestC11NoSecretIsTyped checks that no flag or argument takes the value of a secret: other users
// of a machine can read a command line, and a shell stores it.
func TestC11NoSecretIsTyped(t *testing.T) {
	t.Parallel()
	secret := regexp.MustCompile(`(?i)secret|token|passw|credential|private-key|api-?key|bearer`)
	about := regexp.MustCompile(`(?i)\b(the|a) (secret|token|password|key)('s value)?\b`)
	look := func(path string, v *kong.Value) {
		if !v.IsBool() && (secret.MatchString(v.Name) || about.MatchString(v.Help) && !strings.Contains(v.Help, "is read from PERDURE_TOKEN") && !strings.Contains(v.Help, "read their key from")) {
			// for instance the id of a token, or the name of a secret, which are not secret
			if !strings.HasPrefix(v.Help, "Id") && !strings.HasPrefix(v.Help, "Name of a secret") {
				t.Errorf("%s takes %s: %s", path, v.Name, v.Help)
			}
		}
	}
	for path, node := range leaves(t) {
		for at := node; at != nil; at = at.Parent {
			for _, flag := range at.Flags {
				look(path, flag.Value)
			}
		}
		for _, arg := range node.Positional {
			look(path, arg)
		}
	}
}
