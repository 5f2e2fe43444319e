package openai_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/model/openai"
)

// odd is an answer that some server really sends, and what is made of it.
type odd struct {
	name string
	// where the answer was reported: repository#number, or the documentation of a provider
	source string
	chunks []string
	text   string
	calls  string
	finish model.Finish
	code   model.Code
}

func checkOdd(t *testing.T, cases []odd) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()

			a, err := play(t, t.Context(), tape{bytes: stream(c.chunks...)})

			if a.Message.Text() != c.text || said(a) != c.calls || a.Finish != c.finish || code(err) != c.code {
				t.Errorf("%s: got text %q, calls %q, finish %q, error %v; want %q, %q, %q, %q",
					c.source, a.Message.Text(), said(a), a.Finish, err, c.text, c.calls, c.finish, c.code)
			}
		})
	}
}

// TestOddEnds: how an answer ends that does not end as documented.
func TestOddEnds(t *testing.T) {
	t.Parallel()
	text := delta(`{"content":"Hello"}`)
	call := calling(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}}`)
	half := calling(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":"}}`)
	const done = "[DONE]"
	checkOdd(t, []odd{
		{"done without a finish", "databricks/unity-gateway#215", []string{text, done}, "Hello", "", model.FinishStop, ""},
		{"done without a finish behind a call", "looplj/axonhub#2000", []string{call, done}, "", `a=f{"x":1}`, model.FinishCalls, ""},
		{"done without a finish behind half a call", "CherryHQ/cherry-studio#19793", []string{half, done}, "", "", "", model.Unavailable},
		{"done without anything", "katanemo/plano#898", []string{done}, "", "", "", model.Unavailable},
		{"done without anything but thinking", "Wei-Shaw/sub2api#7098", []string{delta(`{"reasoning_content":"hm"}`), done}, "", "", "", model.Unavailable},
		{"no finish and no done", "earendil-works/pi#8996", []string{text}, "Hello", "", "", model.Unavailable},
		{"a finish and no done", "perplexityai/api-discussion#209", []string{text, finish("stop")}, "Hello", "", model.FinishStop, ""},
		{"tool_use", "anthropic behind a gateway", []string{call, finish("tool_use")}, "", `a=f{"x":1}`, model.FinishCalls, ""},
		{"STOP", "mozilla-ai/any-llm#1202", []string{text, finish("STOP")}, "Hello", "", model.FinishStop, ""},
		{"STOP with calls", "jekalmin/extended_openai_conversation#281", []string{call, finish("STOP")}, "", `a=f{"x":1}`, model.FinishCalls, ""},
		{"FINISH_REASON_STOP", "google-gemini", []string{text, finish("FINISH_REASON_STOP")}, "Hello", "", model.FinishStop, ""},
		{"MAX_TOKENS", "mozilla-ai/any-llm#1202", []string{text, finish("MAX_TOKENS")}, "Hello", "", model.FinishLength, ""},
		{"SAFETY", "mozilla-ai/any-llm#1202", []string{text, finish("SAFETY")}, "Hello", "", model.FinishRefusal, ""},
		{"sensitive", "BerriAI/litellm#24373", []string{text, finish("sensitive")}, "Hello", "", model.FinishRefusal, ""},
		{"network_error", "earendil-works/pi#2313", []string{text, finish("network_error")}, "Hello", "", "", model.Unavailable},
		{"MALFORMED_FUNCTION_CALL", "pydantic/pydantic-ai#3095", []string{finish("MALFORMED_FUNCTION_CALL")}, "", "", "", model.Unavailable},
		{"malformed_function_call behind a call", "NousResearch/hermes-agent#83886", []string{call, finish("malformed_function_call")}, "", "", "", model.Unavailable},
		{"a word that nobody knows, with text", "earendil-works/pi#2352", []string{text, finish("tired")}, "Hello", "", model.FinishStop, ""},
		{"a word that nobody knows, with a call", "earendil-works/pi#2352", []string{call, finish("tired")}, "", `a=f{"x":1}`, model.FinishCalls, ""},
		{"an empty finish in every chunk", "ollama/ollama#4357",
			[]string{`{"choices":[{"index":0,"delta":{"content":"Hel"},"finish_reason":""}]}`, `{"choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":"stop"}]}`}, "Hello", "", model.FinishStop, ""},
		{"the finish as the text null", "dashscope", []string{`{"choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":"null"}]}`, finish("stop")}, "Hello", "", model.FinishStop, ""},
		{"a second call behind the finish", "BerriAI/litellm#35663",
			[]string{`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`,
				`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"b","function":{"name":"g","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`, done},
			"", `a=f{} b=g{}`, model.FinishCalls, ""},
		{"the rest of the arguments behind the finish", "vllm-project/vllm#39615", []string{half, finish("tool_calls"), calling(`{"index":0,"function":{"arguments":"1}"}}`), done}, "", `a=f{"x":1}`, model.FinishCalls, ""},
		{"text behind the finish", "a gateway", []string{delta(`{"content":"Hel"}`), finish("stop"), delta(`{"content":"lo"}`), done}, "Hello", "", model.FinishStop, ""},
		{"half a call behind the finish, and a cut", "a gateway", []string{call, finish("tool_calls"), calling(`{"index":1,"id":"b","function":{"name":"g","arguments":"{\"y\":"}}`)}, "", `a=f{"x":1}`, "", model.Unavailable},
		{"an error that is a text", "fox1245/NeoGraph#124", []string{`{"error":"STREAM_EXPLODED"}`, done}, "", "", "", model.Unavailable},
		{"an error with empty choices", "diegosouzapw/OmniRoute#8210", []string{`{"choices":[],"error":{"code":502,"message":"Worker local total request limit reached (33/32)"}}`, done}, "", "", "", model.Unavailable},
		{"a quota in a stream", "apache/rocketmq-dashboard#2178", []string{`{"error":{"message":"insufficient credit"}}`, done}, "", "", "", model.QuotaExhausted},
		{"a bare error in a stream", "lm-sys/FastChat#1515", []string{`{"error_code":50001,"text":"NETWORK ERROR DUE TO HIGH TRAFFIC."}`, done}, "", "", "", model.Unavailable},
		{"a detail in a stream", "anomalyco/opencode#26110", []string{`{"detail":"Prefill server is overloaded"}`, done}, "", "", "", model.Unavailable},
		{"an error that is null", "a gateway", []string{`{"error":null,"choices":[{"index":0,"delta":{"content":"Hello"}}]}`, finish("stop")}, "Hello", "", model.FinishStop, ""},
	})
}

// TestOddChunks: what is odd in a chunk and does no harm fails no answer.
func TestOddChunks(t *testing.T) {
	t.Parallel()
	end := finish("stop")
	checkOdd(t, []odd{
		{"content as parts", "symfony/ai#2422", []string{
			delta(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]}`), delta(`{"content":[{"type":"text","text":"Hel"},{"type":"text","text":"lo"}]}`), end}, "Hello", "", model.FinishStop, ""},
		{"content as one part", "openclaw/openclaw#68418", []string{delta(`{"content":{"type":"text","text":"Hello"}}`), end}, "Hello", "", model.FinishStop, ""},
		{"content as plain texts", "a gateway", []string{delta(`{"content":["Hel","lo"]}`), end}, "Hello", "", model.FinishStop, ""},
		{"content as a number", "a gateway", []string{delta(`{"content":42}`), end}, "42", "", model.FinishStop, ""},
		{"an empty list as content", "a gateway", []string{delta(`{"content":[]}`), delta(`{"content":"x"}`), end}, "x", "", model.FinishStop, ""},
		{"a number for a name", "a gateway", []string{calling(`{"index":0,"id":7,"function":{"name":5,"arguments":"{}"}}`), end}, "", "7=5{}", model.FinishCalls, ""},
		{"a repeated role", "BerriAI/liteLLM-proxy#19", []string{delta(`{"role":"assistant","content":"Hel"}`), delta(`{"role":"assistant","content":"lo"}`), end}, "Hello", "", model.FinishStop, ""},
		{"null for everything", "vllm-project/vllm#19662", []string{
			`{"id":null,"model":null,"choices":[{"index":null,"delta":{"role":null,"content":null,"refusal":null,"tool_calls":null,"function_call":null},"finish_reason":null,"logprobs":null}],"usage":null}`,
			delta(`{"content":"x"}`), end}, "x", "", model.FinishStop, ""},
		{"choices that are null or no list", "openai/openai-dotnet#706", []string{`{"choices":null}`, `{"choices":"none"}`, `{"choices":{"index":0,"delta":{"content":"x"}}}`, end}, "x", "", model.FinishStop, ""},
		{"a delta that is null", "a gateway", []string{`{"choices":[{"index":0,"delta":null}]}`, delta(`{"content":"x"}`), end}, "x", "", model.FinishStop, ""},
		{"usage that is a text", "a gateway", []string{`{"choices":[{"index":0,"delta":{"content":"x"}}],"usage":"none"}`, end}, "x", "", model.FinishStop, ""},
		{"a key twice", "a gateway", []string{`{"choices":[{"index":0,"delta":{"content":"x","content":"x"}}]}`, end}, "x", "", model.FinishStop, ""},
		{"an index as text", "AstrBotDevs/AstrBot#6692", []string{
			calling(`{"index":"0","id":"a","function":{"name":"f","arguments":"{"}}`), calling(`{"index":"1","id":"b","function":{"name":"g","arguments":"{"}}`),
			calling(`{"index":"0","function":{"arguments":"}"}}`), calling(`{"index":"1","function":{"arguments":"}"}}`), end}, "", "a=f{} b=g{}", model.FinishCalls, ""},
		{"index 0 for a second call, 1 for the rest of it", "agno-agi/agno#8880", []string{
			calling(`{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}`), calling(`{"index":0,"id":"b","function":{"name":"g","arguments":"{\"x\":"}}`),
			calling(`{"index":1,"function":{"arguments":"1}"}}`), end}, "", `a=f{} b=g{"x":1}`, model.FinishCalls, ""},
		{"a piece with the id of an earlier call", "agno-agi/agno#8880", []string{
			calling(`{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}`), calling(`{"index":1,"id":"b","function":{"name":"g","arguments":"{"}}`),
			calling(`{"index":1,"id":"a","function":{"arguments":"}"}}`), calling(`{"index":0,"id":"b","function":{"arguments":"}"}}`), end}, "", "a=f{} b=g{}", model.FinishCalls, ""},
		{"two pieces of one call in a chunk", "openai/openai-python#3201", []string{
			calling(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":"}},{"index":0,"function":{"arguments":"1}"}}`), end}, "", `a=f{"x":1}`, model.FinishCalls, ""},
		{"a name behind the arguments", "vercel/ai#15879", []string{
			calling(`{"id":"a","function":{"arguments":"{}"}}`), calling(`{"id":"a","function":{"name":"f"}}`), end}, "", "a=f{}", model.FinishCalls, ""},
		{"a name in pieces", "NVIDIA-NeMo/Switchyard#785", []string{
			calling(`{"index":0,"id":"a","function":{"name":"get_"}}`), calling(`{"index":0,"function":{"name":"time"}}`), calling(`{"index":0,"function":{"arguments":"{}"}}`), end}, "", "a=get_time{}", model.FinishCalls, ""},
		{"the name so far in each piece", "a gateway", []string{
			calling(`{"index":0,"id":"a","function":{"name":"get_"}}`), calling(`{"index":0,"function":{"name":"get_time"}}`), calling(`{"index":0,"function":{"arguments":"{}"}}`), end}, "", "a=get_time{}", model.FinishCalls, ""},
		{"two calls of index 0 with objects", "BerriAI/litellm#37792", []string{
			calling(`{"index":0,"id":"a","function":{"name":"f","arguments":{"x":1}}}`), calling(`{"index":0,"id":"b","function":{"name":"f","arguments":{"x":2}}}`), end}, "", `a=f{"x":1} b=f{"x":2}`, model.FinishCalls, ""},
		{"the arguments so far in each piece", "a gateway", []string{
			calling(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\""}}`), calling(`{"index":0,"function":{"arguments":"{\"x\":1"}}`), calling(`{"index":0,"function":{"arguments":"{\"x\":1}"}}`), end}, "", `a=f{"x":1}`, model.FinishCalls, ""},
		{"all arguments again at the end", "mudler/cogito#66", []string{
			calling(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\""}}`), calling(`{"index":0,"function":{"arguments":":1}"}}`), calling(`{"index":0,"function":{"arguments":"{\"x\":1}"}}`), end}, "", `a=f{"x":1}`, model.FinishCalls, ""},
		{"an empty object in front", "openai/openai-agents-js#712", []string{
			calling(`{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}`), calling(`{"index":0,"function":{"arguments":"{\"x\":1}"}}`), end}, "", `a=f{"x":1}`, model.FinishCalls, ""},
		{"two different objects as arguments", "NousResearch/hermes-agent#26053", []string{
			calling(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":1}{\"x\":2}"}}`), end}, "", `a=f"{\"x\":1}{\"x\":2}"`, model.FinishCalls, ""},
		{"the older function_call", "OpenAI's documentation", []string{delta(`{"function_call":{"name":"f","arguments":"{\"x\""}}`), delta(`{"function_call":{"arguments":":1}"}}`), finish("function_call")}, "", `=f{"x":1}`, model.FinishCalls, ""},
		{"calls as one object", "a gateway", []string{delta(`{"tool_calls":{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}}`), end}, "", "a=f{}", model.FinishCalls, ""},
		{"several chunks in one event", "a gateway", []string{delta(`{"content":"Hel"}`) + delta(`{"content":"lo"}`), "[" + end + "]"}, "Hello", "", model.FinishStop, ""},
		{"data that is no JSON", "anomalyco/opencode#50871", []string{": keepalive", delta(`{"content":"Hello"}`), `""`, "ping", end}, "Hello", "", model.FinishStop, ""},
		{"JSON that is no chunk", "caozhiyuan/copilot-api#88", []string{`{"type":"ping"}`, `null`, `7`, `"x"`, delta(`{"content":"Hello"}`), end}, "Hello", "", model.FinishStop, ""},
		{"a whole message in an event", "decolua/9router#3492", []string{`{"choices":[{"index":0,"message":{"role":"assistant","content":"Hello"}}]}`}, "Hello", "", model.FinishStop, ""},
		{"the whole message again at the end", "a gateway", []string{delta(`{"content":"Hel"}`), delta(`{"content":"lo"}`),
			`{"choices":[{"index":0,"delta":{},"message":{"content":"Hello"},"finish_reason":"stop"}]}`}, "Hello", "", model.FinishStop, ""},
		{"the message so far in each chunk", "perplexityai/api-discussion#209", []string{
			`{"choices":[{"index":0,"message":{"content":"Hel"}}]}`, `{"choices":[{"index":0,"message":{"content":"Hello"},"finish_reason":"stop"}]}`}, "Hello", "", model.FinishStop, ""},
		{"the message so far beside the delta", "perplexityai/api-discussion#209", []string{
			`{"choices":[{"index":0,"message":{"content":"Hel"},"delta":{"content":"Hel"}}]}`, `{"choices":[{"index":0,"message":{"content":"Hello"},"delta":{"content":"lo"}}]}`, end}, "Hello", "", model.FinishStop, ""},
	})
}

// TestThinkingForms reads thinking wherever servers put it, once.
func TestThinkingForms(t *testing.T) {
	t.Parallel()
	for _, chunk := range []string{
		`{"reasoning_content":"hm"}`, `{"reasoning":"hm"}`, `{"reasoning_content":"hm","reasoning":"hm"}`, `{"reasoning":{"text":"hm"}}`,
		`{"content":[{"type":"thinking","thinking":"hm"}]}`, `{"content":[{"type":"reasoning","text":"hm"}]}`,
	} {
		a, err := play(t, t.Context(), tape{bytes: stream(delta(chunk), delta(`{"content":"x"}`), finish("stop"))})
		if a.Message.Thinking != "hm" || a.Message.Text() != "x" || err != nil {
			t.Errorf("%s: got thinking %q, text %q, %v", chunk, a.Message.Thinking, a.Message.Text(), err)
		}
	}
}

// TestForms: the bytes of an answer say which form it has, its content type does not.
func TestForms(t *testing.T) {
	t.Parallel()
	chunks := []string{delta(`{"content":"Hel"}`), delta(`{"content":"lo"}`), finish("stop")}
	events := string(stream(append(chunks, "[DONE]")...))
	const whole = `{"id":"x","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`
	bodies := map[string]string{
		"events":                      events,
		"events without empty lines":  strings.ReplaceAll(events, "\n\n", "\n"),
		"events without the last end": strings.TrimSpace(events),
		"events without done":         strings.TrimSuffix(events, "data: [DONE]\n\n"),
		"events behind white space":   "\n\n" + events,
		"lines of JSON":               strings.Join(chunks, "\n") + "\n",
		"lines of JSON and done":      strings.Join(append(chunks, "[DONE]"), "\n"),
		"a list of chunks":            "[" + strings.Join(chunks, ",\n") + "]",
		"a whole answer":              whole,
		"a whole answer, and done":    whole + "\ndata: [DONE]\n\n", // decolua/9router#3492
		"a whole answer on lines":     strings.ReplaceAll(whole, ",", ",\n  "),
		"a whole answer as an event":  "data: " + whole + "\n\n",
		"a whole answer, unfinished":  strings.Replace(whole, `,"finish_reason":"stop"`, "", 1),
	}
	for name, body := range bodies {
		for _, kind := range []string{"text/event-stream", "application/json", "text/plain", "application/x-ndjson", "text/html", ""} {
			t.Run(name+" as "+kind, func(t *testing.T) {
				t.Parallel()
				m := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.Header()["Content-Type"] = []string{kind}
					io.WriteString(w, body)
				}), openai.Config{})

				a, err := model.Collect(m.Stream(t.Context(), model.Request{}), nil)

				if a.Message.Text() != "Hello" || a.Finish != model.FinishStop || err != nil {
					t.Errorf("got %q, finish %q, %v", a.Message.Text(), a.Finish, err)
				}
			})
		}
	}
}

// TestForeignForms: an answer in no form of the protocol is an error that says what it was; it is
// asked again only if it says that the server is busy.
func TestForeignForms(t *testing.T) {
	t.Parallel()
	cases := []struct {
		kind, body string
		want       model.Code
		text       string
	}{
		{"text/html", "<html><head><title>Sign in</title></head></html>", model.Misconfigured, "Sign in"},
		{"text/html", "<html><body><h1>502 Bad Gateway</h1></body></html>", model.Unavailable, "502 Bad Gateway"},
		{"text/event-stream", "upstream connect error or disconnect/reset before headers", model.Unavailable, "upstream"},
		{"application/json", `{"detail":"server is overloaded"}`, model.Unavailable, "overloaded"},
		{"application/json", `{"error":{"message":"Invalid API key","type":"authentication_error"}}`, model.Misconfigured, "Invalid API key"},
		{"application/json", `{"base_resp":{"status_code":1004,"status_msg":"login fail"},"choices":null}`, model.Unavailable, "login fail"},
		{"application/json", `{"status":"ok"}`, model.Misconfigured, "base URL"},
		{"application/json", `{"choices":[{"index":0,"mess`, model.Unavailable, "broke"},
		{"application/json", "", model.Unavailable, "ended early"},
		{"text/event-stream", ": busy\n\n: busy\n\n", model.Unavailable, "ended early"},
		{"text/event-stream", "data: Internal Server Error\n\n", model.Unavailable, "Internal Server Error"},
		// lemonade-sdk/lemonade#2975
		{"text/event-stream", `{"error":{"code":400,"message":"request (6009 tokens) exceeds the available context size (4096 tokens), try increasing it","type":"exceed_context_size_error"}}`, model.TooLarge, "6009"},
	}
	for _, c := range cases {
		t.Run(c.body, func(t *testing.T) {
			t.Parallel()
			got := ask(t, serve(t, answering(200, map[string]string{"Content-Type": c.kind}, c.body), openai.Config{}))
			if got.Code != c.want || !strings.Contains(got.Text, c.text) {
				t.Errorf("got %v; want %s: %s", got, c.want, c.text)
			}
		})
	}
}

// TestLateContent: content that comes behind the finish is waited for as long as some comes, and a
// connection that stays open then is left.
func TestLateContent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		chunks := stream(delta(`{"content":"Hel"}`), finish("stop"), delta(`{"content":"lo"}`))
		a, err := play(t, t.Context(), tape{bytes: chunks, stays: true})
		if took := time.Since(begun); err != nil || a.Message.Text() != "Hello" || a.Finish != model.FinishStop || took != 10*time.Second {
			t.Errorf("got %+v, %v, after %s", a, err, took)
		}
	})
}
