package app

import (
	"os"
	"strings"
	"testing"
)

// oneCommand is a model that runs a command, and reports its result. It repeats further messages.
const oneCommand = `
rules:
  - when: {last_role: tool_result}
    text: "It came to: {{last}}"
  - when: {last_role: user, user_contains: run it}
    calls: [{name: bash, args: {command: "touch first; echo done"}}]
  - when: {last_role: user, user_contains: run two}
    calls:
      - {name: bash, args: {command: "touch first"}}
      - {name: bash, args: {command: "touch second"}}
  - when: {last_role: user, user_contains: hide it}
    calls: [{name: bash, args: {command: "echo \u001b[2J\u202ehidden"}}]
steps:
  - text: "You said: {{user}}"
    repeat: true
`

// newQuestionHome is a home for runs whose commands need approval.
func newQuestionHome(t *testing.T) terminalHome {
	t.Helper()
	h := newTerminalHome(t, slowWork)
	h.env = append(h.env, "VISUAL=", "EDITOR=", "NO_COLOR=1")
	if err := os.WriteFile(h.file("one.yaml"), []byte(oneCommand), 0o600); err != nil {
		t.Fatal(err)
	}
	return h
}

// asks starts a run on a terminal, whose first command needs approval.
func (h terminalHome) asks(words ...string) *terminal {
	h.t.Helper()
	return onTerminal(h.t, h.env, "perdure", append([]string{"run", "--model", "scripted:" + h.file("one.yaml"), "--workspace", h.file("ws"), "--allow-shell", "--ask", "bash"}, words...)...)
}

// did reports whether a command created a file.
func (h terminalHome) did(name string) bool {
	_, err := os.Stat(h.file("ws/" + name))
	return err == nil
}

// users are the messages of the person in the model's requests.
func (h terminalHome) users() string {
	return strings.TrimSpace(h.says("event", "list", "last", "--jq", `[.[]|select(.type=="message.received")|.data.message.parts[0].text]|join("|")`))
}

// verdicts are the states of all approvals.
func (h terminalHome) verdicts() string {
	return strings.TrimSpace(h.says("approval", "list", "--all", "--jq", `[.[].state]|reverse|join("|")`))
}

// promptOfQuestion is the prompt of an open question.
const promptOfQuestion = "Run it? [y/N/e(dit)/?] "

// question is what a person types at a question.
type question struct {
	words    []string // of the run
	early    string   // typed before the question appears
	play     func(h terminalHome, x *terminal)
	code     int
	did      bool
	users    string
	verdicts string
}

// TestQuestionOnTerminal answers the question whether a command may run on the terminal of the run.
func TestQuestionOnTerminal(t *testing.T) {
	t.Parallel()
	playQuestions(t, map[string]question{
		"y runs it": {
			words: []string{"run it"}, did: true, users: "run it", verdicts: "approved",
			play: func(_ terminalHome, x *terminal) { x.press("y\r"); x.shows(`It came to: {"exit_code":0`) },
		},
		"n refuses it, and says why": {
			words: []string{"run it"}, users: "run it", verdicts: "denied",
			play: func(_ terminalHome, x *terminal) {
				x.press("n not today\r")
				x.shows("It came to:")
				x.shows("not today")
			},
		},
		"what was typed before it is no answer": {
			words: []string{"run it"}, early: "y\r", users: "run it", verdicts: "denied",
			play: func(_ terminalHome, x *terminal) { x.press("n\r"); x.shows("It came to:") },
		},
		"Enter refuses it": {
			words: []string{"run it"}, users: "run it", verdicts: "denied",
			play: func(_ terminalHome, x *terminal) { x.press("\r"); x.shows("It came to:") },
		},
		"? says more, and a word that means nothing decides nothing": {
			words: []string{"run it"}, did: true, users: "run it", verdicts: "approved",
			play: func(_ terminalHome, x *terminal) {
				x.press("?\r")
				x.shows("digest")
				x.shows("run it once, with exactly these arguments")
				x.shows(promptOfQuestion)
				x.press("what does it do\r")
				x.shows("not an answer")
				x.shows(promptOfQuestion)
				x.press("y\r")
				x.shows("It came to:")
			},
		},
		"in a conversation, y is no message": {
			did: true, users: "run it|and now", verdicts: "approved",
			play: func(_ terminalHome, x *terminal) {
				x.press("y\r")
				x.shows("It came to:")
				x.shows("> ")
				x.press("and now\r")
				x.shows("You said: and now")
				x.shows("> ")
				x.press("\x04")
			},
		},
		"e changes the command in a line": {
			words: []string{"run it"}, users: "run it", verdicts: "approved",
			play: func(h terminalHome, x *terminal) {
				x.press("e\r")
				x.shows("command, or all arguments as JSON in one line: ")
				x.press("touch other\r")
				x.shows("if you approve, this runs instead:")
				x.shows("touch other")
				x.shows(promptOfQuestion)
				x.press("y\r")
				x.shows("It came to:")
				if !h.did("other") {
					h.t.Error("what was typed did not run")
				}
			},
		},
	})
}

// TestQuestionLeft presses Ctrl-C at the question, and ends the input there.
func TestQuestionLeft(t *testing.T) {
	t.Parallel()
	playQuestions(t, map[string]question{
		"Ctrl-C asks, and w goes on waiting": {
			words: []string{"run it"}, did: true, users: "run it", verdicts: "approved",
			play: func(_ terminalHome, x *terminal) {
				x.press("\x03")
				x.shows("[d/q/W]")
				x.press("w\r")
				x.shows(promptOfQuestion)
				x.press("y\r")
				x.shows("It came to:")
			},
		},
		"Ctrl-C and d refuse it": {
			words: []string{"run it"}, users: "run it", verdicts: "denied",
			play: func(_ terminalHome, x *terminal) {
				x.press("\x03")
				x.shows("[d/q/W]")
				x.press("d\r")
				x.shows("It came to:")
			},
		},
		"Ctrl-C and q leave it open": {
			words: []string{"run it"}, code: 9, users: "run it", verdicts: "open",
			play: func(_ terminalHome, x *terminal) {
				x.press("\x03")
				x.shows("[d/q/W]")
				x.press("q\r")
				x.shows("is still open: bash waits for approval")
				x.shows("perdure approve ")
			},
		},
		"a second Ctrl-C leaves at once": {
			words: []string{"run it"}, code: 130, users: "run it", verdicts: "open",
			play: func(_ terminalHome, x *terminal) { x.press("\x03"); x.shows("[d/q/W]"); x.press("\x03") },
		},
		"the end of the input leaves it open": {
			words: []string{"run it"}, code: 9, users: "run it", verdicts: "open",
			play: func(_ terminalHome, x *terminal) { x.press("\x04"); x.shows("is still open") },
		},
	})
}

// TestQuestionBesideOthers has several questions, another person who answers, and a model that
// hides a part of its command.
func TestQuestionBesideOthers(t *testing.T) {
	t.Parallel()
	playQuestions(t, map[string]question{
		"two are asked one after the other": {
			words: []string{"run two"}, did: true, users: "run two", verdicts: "approved|denied",
			play: func(h terminalHome, x *terminal) {
				x.press("y\r")
				x.shows("touch second")
				x.shows(promptOfQuestion)
				x.press("n\r")
				x.shows("It came to:")
				if h.did("second") {
					h.t.Error("the second command ran")
				}
			},
		},
		"somebody else decides meanwhile": {
			words: []string{"run it"}, users: "run it", verdicts: "denied",
			play: func(h terminalHome, x *terminal) {
				h.says("approval", "deny", strings.TrimSpace(h.says("approval", "list", "-o", "name")), "--note", "not here")
				x.shows("needs no answer any more") // before anything that follows from the decision
				x.shows("denied by operator: not here")
				x.shows("It came to:")
			},
		},
		"what could hide a part of it is shown escaped": {
			words: []string{"hide it"}, users: "hide it", verdicts: "denied",
			play: func(_ terminalHome, x *terminal) {
				x.press("n\r")
				x.shows("It came to:")
				if all := x.all.String(); strings.Contains(all, "\x1b[2J") || strings.Contains(all, "\u202e") || !strings.Contains(all, `\u001b[2J\u202ehidden`) {
					x.t.Errorf("the terminal was sent %q", all)
				}
			},
		},
	})
}

// playQuestions runs each case on its own terminal.
func playQuestions(t *testing.T, all map[string]question) {
	t.Helper()
	for name, c := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newQuestionHome(t)
			x := h.asks(c.words...)
			x.press(c.early)
			if len(c.words) == 0 {
				x.shows("> ")
				x.press("run it\r")
			}
			x.shows("bash needs your approval")
			x.shows(promptOfQuestion)

			c.play(h, x)

			x.ends(c.code)
			if h.did("first") != c.did {
				t.Errorf("the command ran: %t, want %t", !c.did, c.did)
			}
			if got := h.users(); got != c.users {
				t.Errorf("the model was told %q, want %q", got, c.users)
			}
			if got := h.verdicts(); got != c.verdicts {
				t.Errorf("the approvals are %q, want %q", got, c.verdicts)
			}
		})
	}
}

// TestQuestionInEditor edits the arguments in the editor of the environment, which controls the
// terminal meanwhile.
func TestQuestionInEditor(t *testing.T) {
	t.Parallel()
	h := newQuestionHome(t)
	script := "#!/bin/sh\nread line\nsed -i \"s/touch first; echo done/$line/\" \"$1\"\n"
	if err := os.WriteFile(h.file("editor"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	h.env = append(h.env, "VISUAL="+h.file("editor"))
	x := h.asks("run it")
	x.shows("Run it? ")

	x.press("e\r")
	x.press("touch edited\r")
	x.shows("if you approve, this runs instead:")
	x.shows("touch edited")
	x.shows("Run it? ")
	x.press("y\r")
	x.shows("It came to:")
	x.ends(0)

	if !h.did("edited") || h.did("first") {
		t.Errorf("edited: %t, as it was: %t; want only what was edited", h.did("edited"), h.did("first"))
	}
	if got := h.verdicts(); got != "approved" {
		t.Errorf("the approvals are %q", got)
	}
}

// TestQuestionWaited asks on a terminal about a call of an earlier run, and does not ask with
// --no-input.
func TestQuestionWaited(t *testing.T) {
	t.Parallel()
	h := newQuestionHome(t)
	x := h.asks("--no-input", "run it")
	x.shows("needs an answer")
	x.ends(9)
	if got := h.verdicts(); got != "open" {
		t.Fatalf("the approvals are %q, want an open one", got)
	}

	x = onTerminal(t, h.env, "perdure", "run", "--last")
	x.shows("bash needs your approval")
	x.shows("touch first; echo done")
	x.shows("Run it? ")
	x.press("y\r")
	x.shows("It came to:")
	x.ends(0)

	if !h.did("first") {
		t.Error("the command did not run")
	}
}
