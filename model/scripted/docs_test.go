package scripted_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/model/scripted"
)

func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/reference/scripted-model.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// examples returns the YAML blocks of the page.
func examples(t *testing.T) []*scripted.Model {
	t.Helper()
	var models []*scripted.Model
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(page(t), -1) {
		m, err := scripted.Parse("page.yaml", []byte(block[1]))
		if err != nil {
			t.Fatalf("%v in\n%s", err, block[1])
		}
		models = append(models, m)
	}
	return models
}

// TestPageExamples runs each example of the page as its first line says.
func TestPageExamples(t *testing.T) {
	t.Parallel()
	user := perdure.Text("go")
	models := examples(t)
	if len(models) != 3 {
		t.Fatalf("got %d examples, want 3", len(models))
	}
	hello, branch, flaky := models[0], models[1], models[2]

	t.Run("text and a call", func(t *testing.T) {
		t.Parallel()
		first := answer(t, hello, model.Request{Messages: []perdure.Message{user}})
		calls := first.Message.Calls()
		if len(calls) != 1 || string(calls[0].Arguments) != `{"command":"date"}` {
			t.Errorf("got calls %v", calls)
		}
		got := say(t, hello, user, agent("I look at the clock.", called("c1", "bash")), result("c1", `{"stdout":"noon\n"}`))
		if got != "It is noon." {
			t.Errorf("got %q, want It is noon.", got)
		}
	})
	t.Run("branch on a notification", func(t *testing.T) {
		t.Parallel()
		spawned := agent("", called("c1", "spawn_background"))
		started := answer(t, branch, model.Request{Messages: []perdure.Message{user}})
		if calls := started.Message.Calls(); len(calls) != 1 || calls[0].Name != "spawn_background" {
			t.Errorf("got calls %v", calls)
		}
		for last, want := range map[string]string{
			"":          "I shall tell you when it has ended.",
			"all well":  "It is done.",
			"it failed": "It failed. The notification says: it failed",
		} {
			messages := []perdure.Message{user, spawned, result("c1", `"started"`)}
			if last != "" {
				messages = append(messages, note(last))
			}
			if got := say(t, branch, messages...); got != want {
				t.Errorf("%q: got %q, want %q", last, got, want)
			}
		}
	})
	t.Run("errors, then success", func(t *testing.T) {
		t.Parallel()
		var got []string
		for attempt := 1; attempt <= 3; attempt++ {
			a, err := model.Collect(flaky.Stream(t.Context(), model.Request{Messages: []perdure.Message{user}, Attempt: attempt}), nil)
			words := a.Message.Text()
			if err != nil {
				words += "|" + err.Error()
			}
			got = append(got, words)
		}
		want := "|provider_rate_limited: slow down; Here is yo|provider_unavailable; Here is your report."
		if got := strings.Join(got, "; "); got != want {
			t.Errorf("got %q\nwant %q", got, want)
		}
	})
}

// TestPageKeys compares the tables of the page with the keys, roles, codes and functions that the
// errors allow.
func TestPageKeys(t *testing.T) {
	t.Parallel()
	text := page(t)
	wrong := []string{
		"x: 1", "rules: [{x: 1}]", "steps: [{x: 1}]", "rules: [{when: {x: 1}}]", "steps: [{calls: [{x: 1}]}]",
		"steps: [{error: {x: 1}}]", "steps: [{usage: {x: 1}}]", "steps: [{finish: x}]", "steps: [{error: {code: x}}]",
		"rules: [{when: {last_role: x}, text: a}]", "steps: [{text: '{{x}}'}]",
	}
	for _, script := range wrong {
		_, err := scripted.Parse("page.yaml", []byte(script))
		if err == nil {
			t.Fatalf("%s is not refused", script)
		}
		_, allowed, found := strings.Cut(err.Error(), "allowed: ")
		if !found {
			t.Fatalf("%v says nothing of what is allowed", err)
		}
		for word := range strings.SplitSeq(allowed, ", ") {
			if strings.Contains(word, " ") {
				continue
			}
			if !strings.Contains(text, "`"+word+"`") && !strings.Contains(text, "`"+word+" ") {
				t.Errorf("the page says nothing of %q, which %s allows", word, script)
			}
		}
	}
}
