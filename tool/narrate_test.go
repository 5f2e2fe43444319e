package tool_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// talker returns a fixed narration, or panics.
type talker struct {
	plain
	text string
}

func (n talker) Narrate(tool.Call, tool.Phase, string) string {
	if n.text == "panic" {
		panic("no words")
	}
	return n.text
}

func TestNarrate(t *testing.T) {
	t.Parallel()
	spec := func(display, noun string) tool.Spec {
		s := named("manage_agents")
		s.DisplayName, s.Hints.NarrationNoun = display, noun
		return s
	}
	for _, test := range []struct {
		name  string
		tool  tool.Tool
		args  string
		phase tool.Phase
		want  string
	}{
		{"own words", talker{plain{spec: spec("Agents", "agent")}, "Hiring"}, `{"operation":"create"}`, tool.PhaseStarted, "Hiring"},
		{"no own words", talker{plain{spec: spec("Agents", "")}, ""}, ``, tool.PhaseStarted, "Agents"},
		{"a panic yields the default", talker{plain{spec: spec("Agents", "")}, "panic"}, ``, tool.PhaseStarted, "Agents"},
		{"created", plain{spec: spec("Agents", "agent")}, `{"operation":"create","name":"X"}`, tool.PhaseCompleted, "Created agent: X"},
		{"creating", plain{spec: spec("Agents", "agent")}, `{"operation":"create","name":"X"}`, tool.PhaseStarted, "Creating agent: X"},
		{"failed", plain{spec: spec("Agents", "agent")}, `{"action":"delete","title":"X"}`, tool.PhaseFailed, "Could not delete agent: X"},
		{"an irregular verb", plain{spec: spec("Agents", "agent")}, `{"action":"get","new_name":"X"}`, tool.PhaseCompleted, "Got agent: X"},
		{"a verb in y", plain{spec: spec("Agents", "agent")}, `{"action":"copy"}`, tool.PhaseCompleted, "Copied agent"},
		{"two words", plain{spec: spec("Agents", "of agent")}, `{"action":"update_status"}`, tool.PhaseStarted, "Updating status of agent"},
		{"no verb", plain{spec: spec("Agents", "agent")}, `{"name":"X"}`, tool.PhaseStarted, "Agents"},
		{"a verb without letters", plain{spec: spec("Agents", "agent")}, `{"action":"__"}`, tool.PhaseStarted, "Agents"},
		{"no JSON", plain{spec: spec("Agents", "agent")}, `{`, tool.PhaseStarted, "Agents"},
		{"the name", plain{spec: spec("", "")}, ``, tool.PhaseStarted, "manage_agents"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := tool.Narrate(test.tool, tool.Call{Args: []byte(test.args)}, test.phase, "en")

			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestSentence has the templates of a narration: values of arguments and results, what is left out,
// and what hides the whole sentence.
func TestSentence(t *testing.T) {
	t.Parallel()
	spec := named("read_file")
	spec.DisplayName = "Read File"
	spec.Narration = tool.Narration{Started: "Reading {path}[ from line {offset}]", Completed: "Read {path}[: {result.lines} lines]",
		Failed: "Could not read {path}"}
	reads := plain{spec: spec}
	for _, test := range []struct {
		name, args string
		phase      tool.Phase
		want       string
	}{
		{"a value", `{"path":"/a.txt"}`, tool.PhaseStarted, "Reading /a.txt"},
		{"a part in brackets", `{"path":"/a.txt","offset":7}`, tool.PhaseStarted, "Reading /a.txt from line 7"},
		{"without a result", `{"path":"/a.txt"}`, tool.PhaseCompleted, "Read /a.txt"},
		{"a missing value", `{"offset":7}`, tool.PhaseStarted, ""},
		{"an empty value", `{"path":" "}`, tool.PhaseStarted, ""},
		{"an object is no value", `{"path":{}}`, tool.PhaseStarted, ""},
		{"a list is counted", `{"path":["a","b"]}`, tool.PhaseStarted, "Reading 2"},
		{"one line", `{"path":"/a\n\tb"}`, tool.PhaseStarted, "Reading /a b"},
		{"a value that looks like a template", `{"path":"{offset}[x]"}`, tool.PhaseStarted, "Reading {offset}[x]"},
		{"a password in a URL", `{"path":"https://ada:hunter2@host/"}`, tool.PhaseStarted, "Reading https://ada:<redacted>@host/"},
		{"no JSON", `{`, tool.PhaseStarted, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := tool.Sentence(reads, tool.Call{Args: []byte(test.args)}, test.phase, "en")

			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
	long := tool.Sentence(talker{plain{spec: spec}, strings.Repeat("ü", 300)}, tool.Call{}, tool.PhaseStarted, "en")
	if n := utf8.RuneCountInString(long); n != tool.MaxNarrationChars || !strings.HasSuffix(long, "…") {
		t.Errorf("a long sentence has %d characters: %s", n, long)
	}
}

// counter is a narrator that sees results, or panics.
type counter struct{ talker }

func (n counter) NarrateResult(_ tool.Call, result perdure.ToolResult, locale string) string {
	if n.text == "panic" {
		panic("no words")
	}
	return "Counted " + string(result.Result) + " in " + locale
}

func TestEndSentence(t *testing.T) {
	t.Parallel()
	spec := named("read_file")
	spec.Narration = tool.Narration{Started: "Reading {path}", Completed: "Read {path}[: {result.lines} lines]", Failed: "Could not read {path}"}
	reads, call := plain{spec: spec}, tool.Call{Args: []byte(`{"path":"/a"}`)}
	lines := perdure.ToolResult{Result: []byte(`{"lines":3}`)}
	for _, test := range []struct {
		name   string
		tool   tool.Tool
		result perdure.ToolResult
		want   string
	}{
		{"a field of the result", reads, lines, "Read /a: 3 lines"},
		{"a result without it", reads, perdure.ToolResult{Result: []byte(`[]`)}, "Read /a"},
		{"an error", reads, perdure.Failed("a", perdure.ErrorTool, "File not found: /a"), "Could not read /a: File not found: /a"},
		{"stopped", reads, perdure.Failed("a", perdure.ErrorInterrupted, "x"), "Reading /a: stopped"},
		{"canceled", reads, perdure.Failed("a", perdure.ErrorCanceled, "x"), "Reading /a: stopped"},
		{"unknown", reads, perdure.Failed("a", perdure.ErrorUnknown, "x"), "Reading /a: the outcome is unknown"},
		{"no sentence", plain{spec: named("x")}, perdure.Failed("a", perdure.ErrorTool, "x"), ""},
		{"own words with the result", counter{talker{plain{spec: spec}, "Counting"}}, lines, `Counted {"lines":3} in de`},
		{"own words without a result", talker{plain{spec: spec}, "Counting"}, lines, "Counting"},
		{"a panic costs nothing", counter{talker{plain{spec: spec}, "panic"}}, lines, "Read /a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := tool.EndSentence(test.tool, call, test.result, "de")

			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// FuzzSentence: no template and no arguments make a sentence of more than one line, or panic.
func FuzzSentence(f *testing.F) {
	f.Add("Reading {path}[ from {offset}]", `{"path":"/a","offset":1}`, `{"n":[1]}`)
	f.Add("[[{a}]", `{"a":"]"}`, ``)
	f.Add("{a.b.c}{", `{`, `null`)
	f.Add("{result.x}]", `{}`, `{"x":1e999}`)
	f.Fuzz(func(t *testing.T, template, args, result string) {
		spec := named("x")
		spec.Narration = tool.Narration{Started: template, Completed: template, Failed: template}
		reads := plain{spec: spec}
		for _, text := range []string{
			tool.Sentence(reads, tool.Call{Args: []byte(args)}, tool.PhaseStarted, "en"),
			tool.EndSentence(reads, tool.Call{Args: []byte(args)}, perdure.ToolResult{Result: []byte(result)}, "en"),
			tool.EndSentence(reads, tool.Call{Args: []byte(args)}, perdure.Failed("a", perdure.ErrorTool, result), "en"),
		} {
			if strings.ContainsAny(text, "\n\r") || utf8.RuneCountInString(text) > tool.MaxNarrationChars {
				t.Errorf("%q", text)
			}
		}
	})
}
