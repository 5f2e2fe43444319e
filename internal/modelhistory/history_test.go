package modelhistory_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/modelhistory"
	"github.com/perdure/perdure/model"
)

// own is the family of the requests of these tests.
const own = "messages models.test claude"

// rules are those of a server that accepts its own ids, and others of at most 40 characters.
func rules() modelhistory.Rules {
	return modelhistory.Rules{
		Family:  own,
		OwnID:   func(string) bool { return true },
		OtherID: func(id string) bool { return modelhistory.IsPlainID(id, 40) },
	}
}

func say(role perdure.Role, parts ...any) perdure.Message {
	m := perdure.Message{Role: role}
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			m.Parts = append(m.Parts, perdure.Part{Type: perdure.PartText, Text: p})
		case perdure.ToolCall:
			m.Parts = append(m.Parts, perdure.Part{Type: perdure.PartToolCall, Call: &p})
		case perdure.ToolResult:
			m.Parts = append(m.Parts, perdure.Part{Type: perdure.PartToolResult, Result: &p})
		}
	}
	return m
}

func call(id, name, args string) perdure.ToolCall {
	return perdure.ToolCall{ID: perdure.CallID(id), Name: name, Arguments: json.RawMessage(args)}
}

func result(id, text string) perdure.ToolResult {
	return perdure.ToolResult{CallID: perdure.CallID(id), Result: json.RawMessage(text)}
}

// from gives a message the state of a family.
func from(family string, m perdure.Message) perdure.Message {
	m.Thinking, m.Signature = "Hm.", "c2ln"
	m.State = &perdure.ProviderState{Family: family, Fields: map[string]json.RawMessage{"f": json.RawMessage(`1`)}}
	return m
}

// written writes turns in lines: the side, and what it says.
func written(turns []modelhistory.Turn) string {
	var b strings.Builder
	for _, turn := range turns {
		for _, a := range turn.Answers {
			b.WriteString("agent")
			for _, text := range a.Texts {
				fmt.Fprintf(&b, " %q", text)
			}
			for _, c := range a.Calls {
				fmt.Fprintf(&b, " %s=%s%s", c.ID, c.Name, c.Input)
			}
			if a.State != nil || a.Signature != "" {
				b.WriteString(" signed " + a.Signature)
			}
			b.WriteString("\n")
		}
		if turn.Agent {
			continue
		}
		b.WriteString("user")
		for _, r := range turn.Results {
			fmt.Fprintf(&b, " %s:%s", r.ID, modelhistory.ResultText(r.ToolResult))
		}
		for _, c := range turn.Content {
			fmt.Fprintf(&b, " %q", strings.ReplaceAll(c.Text, model.NotificationMark+"\n", "note: "))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// TestTurns: each row is a conversation that some server refuses as it stands. The source says
// which one, and where that is reported.
func TestTurns(t *testing.T) {
	t.Parallel()
	user, agent, tool, note := perdure.RoleUser, perdure.RoleAgent, perdure.RoleToolResult, perdure.RoleNotification
	noted := from(own, say(agent, call("a", "look", `{}`)))
	interrupted := `{"error":"` + perdure.TextInterrupted + `"}`
	for _, c := range []struct {
		name, source string
		messages     []perdure.Message
		want         string
	}{
		{"nothing", "", nil, "user \"(The conversation begins here.)\"\n"},
		{"two messages in a row", "vllm-project/vllm#6862", []perdure.Message{say(user, "one"), say(user, "two")}, "user \"one\" \"two\"\n"},
		{"the agent begins", "NousResearch/hermes-agent#41985", []perdure.Message{say(agent, "Welcome."), say(user, "Hi")},
			"user \"(The conversation begins here.)\"\nagent \"Welcome.\"\nuser \"Hi\"\n"},
		{"the agent ends, with white space", "anomalyco/opencode#1295", []perdure.Message{say(user, "Hi"), say(agent, "I was \n")},
			"user \"Hi\"\nagent \"I was \\n\"\nuser \"Continue.\"\n"},
		{"blank texts", "anomalyco/opencode#31259", []perdure.Message{say(user, "Hi"), say(agent, " \n"), say(user, ""), say(user, "On")},
			"user \"Hi\" \"On\"\n"},
		{"a blank text beside a call", "aaif-goose/goose#7343", []perdure.Message{say(user, "Hi"), say(agent, "\n", call("a", "look", `{}`)), say(tool, result("a", `1`))},
			"user \"Hi\"\nagent a=look{}\nuser a:1\n"},
		{"a name with other characters", "docker/docker-agent#3974", []perdure.Message{say(user, "Hi"), say(agent, call("a", `view" path="x/y.php"`, `{}`)), say(tool, result("a", `1`))},
			"user \"Hi\"\nagent a=view__path__x_y_php_{}\nuser a:1\n"},
		{"a command as a name", "earendil-works/pi#1643", []perdure.Message{say(user, "Hi"), say(agent, call("a", strings.Repeat("ab ", 100), `{}`)), say(tool, result("a", `1`))},
			"user \"Hi\"\nagent a=" + strings.Repeat("ab_", 21) + "a{}\nuser a:1\n"},
		{"an empty name", "mastra-ai/mastra#13632", []perdure.Message{say(user, "Hi"), say(agent, call("a", "", `{}`)), say(tool, result("a", `1`))},
			"user \"Hi\"\nagent a=unnamed_tool{}\nuser a:1\n"},
		{"arguments that are no object", "vllm-project/vllm#50861", []perdure.Message{say(user, "Hi"),
			say(agent, call("a", "f", `null`), call("b", "f", ``), call("c", "f", `[1]`), call("d", "f", `{"x":`), call("e", "f", `{"x":1,"x":2}`)),
			say(tool, result("a", `1`)), say(tool, result("b", `2`)), say(tool, result("c", `3`)), say(tool, result("d", `4`)), say(tool, result("e", `5`))},
			"user \"Hi\"\nagent a=f{} b=f{} c=f{\"arguments\":[1]} d=f{\"arguments\":\"{\\\"x\\\":\"} e=f{\"arguments\":\"{\\\"x\\\":1,\\\"x\\\":2}\"}\nuser a:1 b:2 c:3 d:4 e:5\n"},
		{"results late and in another order", "567-labs/instructor#724", []perdure.Message{say(user, "Hi"), say(agent, call("a", "f", `{}`), call("b", "f", `{}`)),
			say(tool, result("b", `2`)), say(user, "Faster"), say(note, "x ended"), say(tool, result("a", `1`))},
			"user \"Hi\"\nagent a=f{} b=f{}\nuser a:1 b:2 \"Faster\" \"note: x ended\"\n"},
		{"a call without a result", "charmbracelet/crush#279", []perdure.Message{say(user, "Hi"), say(agent, call("a", "f", `{}`)), say(user, "Stop")},
			"user \"Hi\"\nagent a=f{}\nuser a:" + interrupted + " \"Stop\"\n"},
		{"a result without a call", "mistralai/mistral-inference#135", []perdure.Message{say(user, "Hi"), say(tool, result("gone", `{"x":1}`)), say(user, "On")},
			"user \"Hi\" \"note: Result of call gone, which is not shown here: {\\\"x\\\":1}\" \"On\"\n"},
		{"two results of a call", "QwenLM/qwen-code#5099", []perdure.Message{say(user, "Hi"), say(agent, call("a", "f", `{}`)), say(tool, result("a", `1`)), say(tool, result("a", `2`))},
			"user \"Hi\"\nagent a=f{}\nuser a:1 \"note: Result of call a, which is not shown here: 2\"\n"},
		{"an id in two turns", "craft-ai-agents/craft-agents-oss#753", []perdure.Message{say(user, "Hi"), say(agent, call("call_0", "f", `{}`)), say(tool, result("call_0", `1`)),
			say(agent, call("call_0", "f", `{}`)), say(tool, result("call_0", `2`))},
			"user \"Hi\"\nagent call_0=f{}\nuser call_0:1\nagent ID1=f{}\nuser ID1:2\n"},
		{"an id with other characters, and none", "BerriAI/litellm#18160", []perdure.Message{say(user, "Hi"), say(agent, call("functions.f:0", "f", `{}`), call("", "f", `{}`)),
			say(tool, result("functions.f:0", `1`)), say(tool, result("", `2`))},
			"user \"Hi\"\nagent ID1=f{} ID2=f{}\nuser ID1:1 ID2:2\n"},
		{"two answers in a row", "NousResearch/hermes-agent#55603", []perdure.Message{say(user, "Hi"), say(agent, "I was"), say(agent, "Here.")},
			"user \"Hi\"\nagent \"I was\"\nagent \"Here.\"\nuser \"Continue.\"\n"},
		{"state of this family", "0xPlaygrounds/rig#1391", []perdure.Message{say(user, "Hi"), noted, say(tool, result("a", `1`))},
			"user \"Hi\"\nagent a=look{} signed c2ln\nuser a:1\n"},
		{"state of another family", "BerriAI/litellm#18160", []perdure.Message{say(user, "Hi"),
			from("chat_completions x gemini", say(agent, "Yes.", call("call_long__thought__c2ln", "look", `{}`))), say(tool, result("call_long__thought__c2ln", `1`))},
			"user \"Hi\"\nagent \"Yes.\" ID1=look{}\nuser ID1:1\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			turns := modelhistory.Turns(c.messages, rules())
			got := written(turns)
			n := 0
			for _, turn := range turns { // the substituted ids are hashes
				for _, a := range turn.Answers {
					for _, made := range a.Calls {
						if modelhistory.IsShortID(made.ID) {
							n++
							got = strings.ReplaceAll(got, made.ID, fmt.Sprint("ID", n))
						}
					}
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.source, diff)
			}
		})
	}
}

// TestOwnIDs: a provider gets the ids that it gave, because they can contain state (LiteLLM puts
// the signature of Gemini into them, BerriAI/litellm#37849) or mean something to the model (Kimi
// numbers its calls in them, vybestack/llxprt-code#713). Another provider gets ids that all accept.
func TestOwnIDs(t *testing.T) {
	t.Parallel()
	const theirs = "call_1__thought__c2ln/ZWQ="
	asked := perdure.ToolCall{ID: "call_ours", Name: "f", ProviderCallID: theirs, Arguments: json.RawMessage(`{}`),
		ProviderFields: map[string]json.RawMessage{"extra_content": json.RawMessage(`{"google":{}}`)}}
	messages := []perdure.Message{say(perdure.RoleUser, "Hi"), from(own, say(perdure.RoleAgent, asked)), say(perdure.RoleToolResult, result("call_ours", `1`))}

	back := modelhistory.Turns(messages, rules())
	other := rules()
	other.Family = "messages elsewhere.test claude"
	away := modelhistory.Turns(messages, other)

	if c := back[1].Answers[0].Calls[0]; c.ID != theirs || back[2].Results[0].ID != theirs || len(c.Fields) != 1 {
		t.Errorf("the provider gets %+v and the result of %s", c, back[2].Results[0].ID)
	}
	if c := away[1].Answers[0].Calls[0]; !modelhistory.IsShortID(c.ID) || away[2].Results[0].ID != c.ID || c.Fields != nil {
		t.Errorf("another provider gets %+v and the result of %s", c, away[2].Results[0].ID)
	}
}

func TestFamily(t *testing.T) {
	t.Parallel()
	family := modelhistory.Family
	for _, same := range [][2]string{
		{family("c", "https://api.deepseek.com", "deepseek-chat"), family("c", "https://api.deepseek.com/", "deepseek-reasoner")},
		{family("c", "https://openrouter.ai/api/v1", "google/gemini-3-pro"), family("c", "https://openrouter.ai/api/v1", "gemini-3-flash")},
	} {
		if same[0] != same[1] {
			t.Errorf("%q and %q differ", same[0], same[1])
		}
	}
	for _, other := range [][2]string{
		{family("c", "https://openrouter.ai/api/v1", "google/gemini-3-pro"), family("c", "https://openrouter.ai/api/v1", "anthropic/claude-sonnet-4")},
		{family("c", "http://127.0.0.1:1/v1", "m"), family("c", "http://127.0.0.1:2/v1", "m")},
		{family("c", "https://api.deepseek.com", "deepseek-chat"), family("m", "https://api.deepseek.com", "deepseek-chat")},
		{family("c", "https://a", "7b"), family("c", "https://a", "8b")},
	} {
		if other[0] == other[1] {
			t.Errorf("%q stands for both", other[0])
		}
	}
}

// TestAnyHistory: any history becomes turns that the strictest server accepts, and no text, call
// or result of it is missing.
func TestAnyHistory(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		messages := rapid.SliceOfN(rapid.Custom(anyMessage), 0, 12).Draw(t, "messages")
		r := rules()
		if rapid.Bool().Draw(t, "short ids") {
			r.OwnID, r.OtherID = modelhistory.IsShortID, modelhistory.IsShortID
		}

		turns := modelhistory.Turns(messages, r)

		checkStrictly(t, turns)
		checkComplete(t, messages, turns)
	})
}

func anyMessage(t *rapid.T) perdure.Message {
	texts := []string{"", " \n", "one", "two ", "[runtime notification]"}
	ids := []string{"", "a", "b", "call_0", "functions.f:0", "ABCDEFGHI", strings.Repeat("x", 70)}
	m := perdure.Message{Role: rapid.SampledFrom([]perdure.Role{
		perdure.RoleUser, perdure.RoleAgent, perdure.RoleAgent, perdure.RoleToolResult, perdure.RoleNotification,
	}).Draw(t, "role")}
	if m.Role == perdure.RoleAgent && rapid.Bool().Draw(t, "known") {
		m = from(rapid.SampledFrom([]string{own, "another"}).Draw(t, "family"), m)
	}
	for range rapid.IntRange(0, 3).Draw(t, "parts") {
		id := perdure.CallID(rapid.SampledFrom(ids).Draw(t, "id"))
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 0:
			m.Parts = append(m.Parts, perdure.Part{Type: perdure.PartText, Text: rapid.SampledFrom(texts).Draw(t, "text")})
		case 1:
			m.Parts = append(m.Parts, perdure.Part{Type: perdure.PartToolCall, Call: &perdure.ToolCall{
				ID: id, Name: rapid.SampledFrom([]string{"f", "", "a b/ü", strings.Repeat("n", 99)}).Draw(t, "name"),
				Arguments:      json.RawMessage(rapid.SampledFrom([]string{`{}`, ``, `null`, `{"x":`, `[1]`, `"x"`, `{"a":1,"a":2}`}).Draw(t, "args")),
				ProviderCallID: rapid.SampledFrom(ids).Draw(t, "their id"),
			}})
		default:
			m.Parts = append(m.Parts, perdure.Part{Type: perdure.PartToolResult, Result: &perdure.ToolResult{
				CallID: id, Result: json.RawMessage(rapid.SampledFrom([]string{``, `{"r":1}`, `"r"`}).Draw(t, "result")),
			}})
		}
	}
	return m
}

var plainName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// checkStrictly checks the rules that the package comment lists.
func checkStrictly(t *rapid.T, turns []modelhistory.Turn) {
	if len(turns) == 0 || turns[0].Agent || turns[len(turns)-1].Agent {
		t.Fatalf("the user does not begin and end:\n%s", written(turns))
	}
	used := map[string]bool{}
	var open []string
	for i, turn := range turns {
		if i > 0 && turn.Agent == turns[i-1].Agent {
			t.Fatalf("turns %d and %d are of one side:\n%s", i-1, i, written(turns))
		}
		if turn.Agent {
			open = checkAnswers(t, turn, used)
			continue
		}
		for n, r := range turn.Results {
			if n >= len(open) || r.ID != open[n] {
				t.Fatalf("the results of turn %d are not those of %q:\n%s", i, open, written(turns))
			}
		}
		if len(turn.Results) != len(open) || len(turn.Results)+len(turn.Content) == 0 {
			t.Fatalf("turn %d has not one result for each of %q, or is empty:\n%s", i, open, written(turns))
		}
		for _, c := range turn.Content {
			if c.Image == nil && strings.TrimSpace(c.Text) == "" {
				t.Fatalf("turn %d has a blank text", i)
			}
		}
	}
}

// checkAnswers checks a turn of the agent and returns the ids of its calls.
func checkAnswers(t *rapid.T, turn modelhistory.Turn, used map[string]bool) (ids []string) {
	for _, a := range turn.Answers {
		if len(a.Texts)+len(a.Calls) == 0 {
			t.Fatal("an answer is empty")
		}
		for _, text := range a.Texts {
			if strings.TrimSpace(text) == "" {
				t.Fatal("a text is blank")
			}
		}
		for _, c := range a.Calls {
			var input map[string]any
			if c.ID == "" || used[c.ID] || !plainName.MatchString(c.Name) || perdure.DecodeJSON(c.Input, &input) != nil {
				t.Fatalf("the call %+v is not acceptable", c)
			}
			used[c.ID] = true
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// checkComplete checks that everything is there, as often as it was said.
func checkComplete(t *rapid.T, messages []perdure.Message, turns []modelhistory.Turn) {
	texts, calls, results := 0, 0, 0
	for _, m := range messages {
		for _, p := range m.Parts {
			switch {
			case p.Call != nil:
				calls++
			case p.Result != nil:
				results++
			case strings.TrimSpace(p.Text) != "":
				texts++
			}
		}
	}
	for _, turn := range turns {
		for _, a := range turn.Answers {
			texts -= len(a.Texts)
			calls -= len(a.Calls)
		}
		for _, r := range turn.Results {
			if r.ErrorKind != perdure.ErrorInterrupted { // it was not missing
				results--
			}
		}
		for _, c := range turn.Content {
			switch {
			case strings.Contains(c.Text, "\nResult of call "):
				results--
			case c.Text != modelhistory.OpeningText && c.Text != modelhistory.ContinueText:
				texts--
			}
		}
	}
	if texts != 0 || calls != 0 || results != 0 {
		t.Fatalf("%d texts, %d calls and %d results are missing:\n%s", texts, calls, results, written(turns))
	}
}
