package openai_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/strictjson"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/model/openai"
)

// calling writes a chunk with one piece of a call.
func calling(piece string) string { return delta(`{"tool_calls":[` + piece + `]}`) }

// said writes the calls of an answer in one line.
func said(a model.Answer) string {
	var all []string
	for _, c := range a.Message.Calls() {
		all = append(all, fmt.Sprintf("%s=%s%s", c.ID, c.Name, c.Arguments))
	}
	return strings.Join(all, " ")
}

// TestCalls says which calls are complete (TN7).
func TestCalls(t *testing.T) {
	t.Parallel()
	one := calling(`{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}}`)
	two := calling(`{"index":1,"id":"b","type":"function","function":{"name":"g","arguments":""}}`)
	checkCalls(t, []called{
		{"finish stop with calls", []string{one, finish("stop")}, `a=f{"x":1}`, 0, model.FinishCalls, ""},
		{"finish function_call", []string{one, finish("function_call")}, `a=f{"x":1}`, 0, model.FinishCalls, ""},
		{"finish tool_calls without calls", []string{delta(`{"content":"x"}`), finish("tool_calls")}, "", 0, model.FinishStop, ""},
		{"no arguments at the end", []string{one, two, finish("tool_calls")}, `a=f{"x":1} b=g{}`, 0, model.FinishCalls, ""},
		{"length drops the last call though it parses", []string{one, finish("length")}, "", 1, model.FinishLength, ""},
		{"length keeps a call before the last one", []string{one, two, finish("length")}, `a=f{"x":1}`, 1, model.FinishLength, ""},
		{"a filter drops all calls", []string{one, two, finish("content_filter")}, "", 2, model.FinishRefusal, ""},
		{"a refusal drops all calls", []string{one, delta(`{"refusal":"no"}`), finish("stop")}, "", 1, model.FinishRefusal, ""},
		{"cut drops the last call though it parses", []string{one}, "", 1, "", model.Unavailable},
		{"cut with a later call", []string{one, two}, `a=f{"x":1}`, 1, "", model.Unavailable},
		{"cut with a later call, the first without arguments so far", []string{two, calling(`{"index":2,"id":"c","function":{"name":"h"}}`)}, "", 2, "", model.Unavailable},
		{"cut with a later call, the first with a number so far", []string{
			calling(`{"index":0,"id":"a","function":{"name":"f","arguments":"12"}}`), two}, "", 2, "", model.Unavailable},
		{"done without finish", []string{one, "[DONE]"}, `a=f{"x":1}`, 0, model.FinishCalls, ""},
		{"done without finish, the last call without arguments so far", []string{one, two, "[DONE]"}, `a=f{"x":1}`, 1, "", model.Unavailable},
		{"pieces of two calls by turns", []string{
			calling(`{"index":0,"id":"a","function":{"name":"f","arguments":""}}`), two,
			calling(`{"index":0,"function":{"arguments":"{\"x\""}}`), calling(`{"index":1,"function":{"arguments":"{\"y\""}}`),
			calling(`{"index":0,"function":{"arguments":":1}"}}`), calling(`{"index":1,"function":{"arguments":":2}"}}`), finish("tool_calls"),
		}, `a=f{"x":1} b=g{"y":2}`, 0, model.FinishCalls, ""},
		{"both calls in one chunk", []string{
			calling(`{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}},{"index":1,"id":"b","function":{"name":"g","arguments":"{}"}}`), finish("tool_calls"),
		}, `a=f{} b=g{}`, 0, model.FinishCalls, ""},
		{"no index", []string{
			calling(`{"id":"a","function":{"name":"f","arguments":"{\"x\""}}`), calling(`{"function":{"arguments":":1}"}}`),
			calling(`{"id":"b","function":{"name":"f","arguments":"{}"}}`), finish("tool_calls"),
		}, `a=f{"x":1} b=f{}`, 0, model.FinishCalls, ""},
		{"no index and no id", []string{
			calling(`{"function":{"name":"f","arguments":"{}"}}`), calling(`{"function":{"name":"g","arguments":"{}"}}`), finish("tool_calls"),
		}, `=f{} =g{}`, 0, model.FinishCalls, ""},
		{"id and name in every piece", []string{
			calling(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":{"}}`), calling(`{"index":0,"id":"a","function":{"name":"f","arguments":"}"}}`),
			calling(`{"index":0,"id":"a","function":{"name":"f","arguments":"}"}}`), finish("tool_calls"),
		}, `a=f{"x":{}}`, 0, model.FinishCalls, ""},
		{"the opening with all arguments twice", []string{one, one, finish("tool_calls")}, `a=f{"x":1}`, 0, model.FinishCalls, ""},
		{"arguments that are an object", []string{calling(`{"index":0,"id":"a","function":{"name":"f","arguments":{"x":1}}}`), finish("stop")}, `a=f{"x":1}`, 0, model.FinishCalls, ""},
		{"another name for the same call", []string{one, calling(`{"index":0,"id":"a","function":{"name":"rm","arguments":""}}`), finish("stop")}, "", 1, model.FinishCalls, ""},
		{"arguments before a name", []string{calling(`{"index":0,"function":{"arguments":"{}"}}`), finish("stop")}, "", 1, model.FinishCalls, ""},
		{"a key twice", []string{calling(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":1,\"x\":2}"}}`), finish("stop")}, `a=f{"x":1,"x":2}`, 0, model.FinishCalls, ""},
		{"arguments twice", []string{one, calling(`{"index":0,"function":{"arguments":"{\"x\":1}"}}`), finish("stop")}, `a=f{"x":1}`, 0, model.FinishCalls, ""},
		{"a second choice", []string{one, `{"choices":[{"index":1,"delta":{"content":"x","tool_calls":[{"index":0,"function":{"arguments":"x"}}]},"finish_reason":"length"}]}`, finish("stop")}, `a=f{"x":1}`, 0, model.FinishCalls, ""},
		{"a piece after the finish", []string{one, finish("stop"), two, finish("length")}, `a=f{"x":1}`, 1, model.FinishLength, ""},
	})
}

// TestOddCalls: a call that the provider closed comes as it stands, also where its arguments do
// not parse (TL22).
func TestOddCalls(t *testing.T) {
	t.Parallel()
	one := calling(`{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}}`)
	two := calling(`{"index":1,"id":"b","type":"function","function":{"name":"g","arguments":""}}`)
	half := calling(`{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":"}}`)
	checkCalls(t, []called{
		{"half of a pair", []string{calling(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":\"\\ud83d\"}"}}`), finish("stop")}, `a=f{"x":"\ud83d"}`, 0, model.FinishCalls, ""},
		{"arguments that stop in the middle", []string{half, finish("tool_calls")}, `a=f"{\"x\":"`, 0, model.FinishCalls, ""},
		{"arguments that stop in the middle, at the length", []string{half, finish("length")}, "", 1, model.FinishLength, ""},
		{"arguments that stop in the middle, before the length", []string{half, two, finish("length")}, `a=f"{\"x\":"`, 1, model.FinishLength, ""},
		{"arguments that stop in the middle, before a cut", []string{half, two}, "", 2, "", model.Unavailable},
		{"no arguments before the length", []string{two, calling(`{"index":2,"id":"c","function":{"name":"h"}}`), finish("length")}, "", 2, model.FinishLength, ""},
		{"a backslash and half of a pair", []string{calling(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":\"\\\ud83d\"}"}}`), finish("stop")}, "", 1, model.FinishCalls, ""},
		{"a name in every piece and no id", []string{
			calling(`{"index":0,"function":{"name":"f","arguments":"{\"x\":\"}"}}`), calling(`{"index":0,"function":{"name":"f","arguments":"\\\"}"}}`),
			calling(`{"index":0,"function":{"name":"f","arguments":"\"}"}}`), calling(`{"index":0,"function":{"name":"f","arguments":"{}"}}`), finish("stop"),
		}, `=f{"x":"}\"}"} =f{}`, 0, model.FinishCalls, ""},
		{"an index after none", []string{
			calling(`{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}`), calling(`{"id":"b","function":{"name":"g","arguments":"{"}}`),
			calling(`{"index":0,"function":{"arguments":"}"}}`), finish("stop"),
		}, `a=f{} b=g{}`, 0, model.FinishCalls, ""},
		{"a piece of nothing", []string{one, calling(`{"index":7}`), finish("stop")}, `a=f{"x":1}`, 0, model.FinishCalls, ""},
	})
}

// called is a stream and the calls that are made of it.
type called struct {
	name      string
	chunks    []string
	want      string
	discarded int
	finish    model.Finish
	code      model.Code
}

func checkCalls(t *testing.T, cases []called) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()

			a, err := play(t, t.Context(), tape{bytes: stream(c.chunks...)})

			if got := said(a); got != c.want || a.Discarded != c.discarded || a.Finish != c.finish || code(err) != c.code {
				t.Errorf("got %q, %d discarded, finish %q, error %v; want %q, %d, %q, %q", got, a.Discarded, a.Finish, err, c.want, c.discarded, c.finish, c.code)
			}
		})
	}
}

// TestCharacters puts characters together that chunks split, as bytes and as escapes, in text and
// in arguments.
func TestCharacters(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		pieces []string // as they stand in a JSON string
		want   string
	}{
		{"bytes", []string{"\xf0", "\x9f\x99", "\x82"}, "🙂"},
		{"escapes", []string{`\ud83d`, `\ude42`}, "🙂"},
		{"escapes in capitals", []string{`\uD83D`, `\uDE42!`}, "🙂!"},
		{"escapes together", []string{`\ud83d\ude42`}, "🙂"},
		{"an escaped backslash before", []string{`\\ud83d`}, `\ud83d`},
		{"two halves of different pairs", []string{`\ud83d`, `\ud83d\ude42`}, "\uFFFD🙂"},
		{"half a pair and a letter", []string{`\ud83d`, "x"}, "\uFFFDx"},
		{"the second half alone", []string{`\ude42x`}, "\uFFFDx"},
		{"the first half at the end", []string{`x\ud83d`}, "x\uFFFD"},
		{"half a byte sequence at the end", []string{"x\xc3"}, "x\uFFFD"},
		{"a byte that is never one", []string{"x\xff", "y"}, "x\uFFFDy"},
		{"noncharacters beside whole text", []string{"\uFDD4\uFDE1"}, "\uFDD4\uFDE1"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, field := range []string{"content", "refusal", "reasoning", "reasoning_content"} {
				chunks := []string{}
				for _, p := range c.pieces {
					chunks = append(chunks, delta(`{"`+field+`":"`+p+`"}`))
				}

				a, err := play(t, t.Context(), tape{bytes: stream(append(chunks, finish("stop"))...)})
				cut, _ := play(t, t.Context(), tape{bytes: stream(chunks...)})

				got, before := a.Message.Text(), cut.Message.Text()
				if strings.HasPrefix(field, "reason") {
					got, before = a.Message.Thinking, cut.Message.Thinking
				}
				if got != c.want || err != nil || !strings.HasPrefix(c.want, before) {
					t.Errorf("%s: got %q, error %v, cut %q; want %q", field, got, err, before, c.want)
				}
			}
		})
	}
	t.Run("arguments", func(t *testing.T) {
		t.Parallel()
		for want, halves := range map[string][2]string{
			`a=f{"x":"\ud83d"}`: {`\ud83d`, `\ude42`}, `a=f"{\"x\":\"\\xf0\\x9f\"}"`: {"\xf0\x9f", "\x99\x82"},
		} {
			opening := calling(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":\"` + halves[0] + `"}}`)
			closing := calling(`{"index":0,"function":{"arguments":"` + halves[1] + `\"}"}}`)

			whole, _ := play(t, t.Context(), tape{bytes: stream(opening, closing, finish("stop"))})
			half, _ := play(t, t.Context(), tape{bytes: stream(opening, calling(`{"index":0,"function":{"arguments":"\"}"}}`), finish("stop"))})

			if said(whole) != `a=f{"x":"🙂"}` || said(half) != want || half.Discarded != 0 {
				t.Errorf("got %s, and of half a character %s, %d discarded; want %s", said(whole), said(half), half.Discarded, want)
			}
			if _, err := strictjson.Canonical(half.Message.Calls()[0].Arguments); err == nil && strings.Contains(want, "ud83d") {
				t.Errorf("half a character became arguments that parse: %s", said(half))
			}
		}
	})
}

// TestLongEvents reads arguments of megabytes, in one event and in many, and refuses a line
// without end.
func TestLongEvents(t *testing.T) {
	t.Parallel()
	content := strings.Repeat("Neiße ", 1<<20)
	opening := calling(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":\""}}`)
	closing := calling(`{"index":0,"function":{"arguments":"\"}"}}`)
	piece := func(s string) string { return calling(`{"index":0,"function":{"arguments":"` + s + `"}}`) }
	many := []string{opening}
	for range 64 {
		many = append(many, piece(content[:len(content)/64]))
	}
	for name, chunks := range map[string][]string{"one event": {opening, piece(content), closing}, "many events": append(many, closing)} {
		a, err := play(t, t.Context(), tape{bytes: stream(append(chunks, finish("tool_calls"))...)})
		if err != nil || len(said(a)) < len(content) {
			t.Errorf("%s: got %d bytes of calls, error %v", name, len(said(a)), err)
		}
	}

	a, err := play(t, t.Context(), tape{bytes: []byte("data: " + strings.Repeat("x", 33<<20))})

	if code(err) != model.Processing || a.Discarded != 0 {
		t.Errorf("a line without end: got %v", err)
	}
}

// TestAfterTheFinish: an answer that has finished is whole, whatever the server does with the
// connection. Text behind it belongs to the answer.
func TestAfterTheFinish(t *testing.T) {
	t.Parallel()
	whole := stream(delta(`{"content":"x"}`), finish("stop"))
	usage := `{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}`
	for name, after := range map[string]string{
		"nothing": "", "a broken chunk": "data: {\n\n", "an error": `data: {"error":{"message":"no"}}` + "\n\n", "half an event": "data: [DO", "text": "data: " + delta(`{"content":"y"}`) + "\n\n",
	} {
		a, err := play(t, t.Context(), tape{bytes: append(append([]byte{}, whole...), after+"data: "+usage+"\n\n"...), end: io.ErrUnexpectedEOF})
		text := "x"
		if name == "text" {
			text = "xy"
		}
		if err != nil || a.Message.Text() != text || a.Finish != model.FinishStop || name != "half an event" && a.Usage.InputTokens != 3 {
			t.Errorf("%s: got %+v, %v", name, a, err)
		}
	}
}

// TestServerThatStays: a connection that stays open after the finish is left after ten seconds,
// and at once after the last line.
func TestServerThatStays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		a, err := play(t, t.Context(), tape{bytes: stream(delta(`{"content":"x"}`), finish("stop")), stays: true})
		if took := time.Since(begun); err != nil || a.Finish != model.FinishStop || took != 10*time.Second {
			t.Errorf("without [DONE]: got %+v, %v, after %s", a, err, took)
		}

		begun = time.Now()
		_, err = play(t, t.Context(), tape{bytes: stream(finish("stop"), "[DONE]"), stays: true})
		if took := time.Since(begun); err != nil || took != 0 {
			t.Errorf("with [DONE]: got %v, after %s", err, took)
		}

		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, perdure.CauseInterrupt)
		defer cancel()
		begun = time.Now()
		a, err = play(t, ctx, tape{bytes: stream(delta(`{"content":"x"}`), finish("stop")), stays: true})
		if took := time.Since(begun); err != nil || a.Finish != model.FinishStop || took != time.Second {
			t.Errorf("with a context that ends meanwhile: got %+v, %v, after %s", a, err, took)
		}

		ctx, cancel = context.WithTimeoutCause(t.Context(), time.Second, perdure.CauseInterrupt)
		defer cancel()
		_, err = play(t, ctx, tape{bytes: stream(delta(`{"content":"x"}`)), stays: true})
		if !errors.Is(err, perdure.CauseInterrupt) {
			t.Errorf("with a context that ends before the finish: got %v", err)
		}
	})
}

// TestEnds says what each finish_reason, and each other end, means.
func TestEnds(t *testing.T) {
	t.Parallel()
	text := delta(`{"content":"x"}`)
	cases := []struct {
		name   string
		last   string
		finish model.Finish
		code   model.Code
	}{
		{"stop", finish("stop"), model.FinishStop, ""},
		{"eos_token", finish("eos_token"), model.FinishStop, ""},
		{"capitals", finish("LENGTH"), model.FinishLength, ""},
		{"model_length", finish("model_length"), model.FinishLength, ""},
		{"insufficient_system_resource", finish("insufficient_system_resource"), "", model.Unavailable},
		{"a reason that nobody knows", finish("tired"), model.FinishStop, ""},
		{"an error of OpenAI", `{"error":{"message":"The server had an error","type":"server_error","param":null,"code":null}}`, "", model.Unavailable},
		{"an error of vLLM", `{"error":{"object":"error","message":"boom","type":"BadRequestError","param":null,"code":400}}`, "", model.Misconfigured},
		{"an error of OpenRouter", `{"error":{"code":429,"message":"Rate limit exceeded"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}`, "", model.RateLimited},
		{"an error of a choice", `{"choices":[{"index":0,"delta":{},"error":{"code":402,"message":"no credits"}}]}`, "", model.QuotaExhausted},
		{"an error of llama.cpp", `{"error":{"code":500,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}`, "", model.TooLarge},
		{"an error that is a text", `{"error":"generation failed"}`, "", model.Unavailable},
		{"a chunk that was cut", `{"choices":[{"index":0,"del`, "", model.Unavailable},
		{"a chunk with a key twice, and no end", `{"choices":[],"choices":[]}`, "", model.Unavailable},
		{"a chunk of another form, and no end", `{"choices":[{"index":0,"delta":{"content":[]}}]}`, "", model.Unavailable},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()

			a, err := play(t, t.Context(), tape{bytes: stream(text, c.last)})

			if a.Finish != c.finish || code(err) != c.code || a.Message.Text() != "x" || a.Message.Interrupted != (c.code != "") {
				t.Errorf("got %+v, %v; want finish %q, code %q", a, err, c.finish, c.code)
			}
		})
	}
}

// TestSignsOfLife: while arguments come, and while a server works on the first content, the
// caller gets signs of progress.
func TestSignsOfLife(t *testing.T) {
	t.Parallel()
	chunks := stream(calling(`{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}`), calling(`{"index":0,"function":{"arguments":"}"}}`), finish("stop"))
	chunks = append([]byte(": keep-alive\n\n"), chunks...)
	m := newModel(t, openai.Config{BaseURL: "http://recorded.test", HTTP: &http.Client{Transport: tape{bytes: chunks}}})
	if n := countDeltas(t, m); n != 6 { // the two lines of the keep-alive before any content, two pieces, the call, the finish
		t.Errorf("got %d deltas, want 6", n)
	}
}

func countDeltas(t *testing.T, m model.Model) int {
	t.Helper()
	n := 0
	for _, err := range m.Stream(t.Context(), model.Request{}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// TestNoSignsOfLife: chunks that bring nothing new yield nothing, so that a stream that hangs
// behind them is seen to (TN8).
func TestNoSignsOfLife(t *testing.T) {
	t.Parallel()
	const usage = `{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}`
	opening := calling(`{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}`)
	for name, again := range map[string]string{
		"usage": usage, "usage of nothing": `{"choices":[],"usage":{}}`, "a piece of nothing": calling(`{"index":0}`), "a piece of another index": calling(`{"index":3}`),
		"an id again": calling(`{"index":0,"id":"a"}`), "an opening": opening, "an id and a name": calling(`{"index":0,"id":"a","function":{"name":"f","arguments":""}}`),
		"the model": `{"model":"m","choices":[]}`, "no text": delta(`{"content":""}`),
	} {
		chunks := []string{`{"model":"m","choices":[]}`, usage, opening}
		for range 20 {
			chunks = append(chunks, again)
		}
		m := newModel(t, openai.Config{BaseURL: "http://recorded.test", HTTP: &http.Client{Transport: tape{bytes: stream(append(chunks, finish("stop"), usage)...)}}})
		// the model, usage, the opening, the call, the finish
		if n := countDeltas(t, m); n != 5 && (n > 6 || name != "an opening") {
			t.Errorf("%s, twenty times: got %d deltas, want 5", name, n)
		}
	}
}

// TestOddUsage: what cannot be read of usage is left out, and no answer fails by it.
func TestOddUsage(t *testing.T) {
	t.Parallel()
	for usage, want := range map[string]perdure.Usage{
		`{"prompt_tokens":1.5,"completion_tokens":2}`:                                                         {OutputTokens: 2},
		`{"prompt_tokens":"3","completion_tokens":null,"prompt_tokens_details":{"cached_tokens":1}}`:          {CachedTokens: 1},
		`{"prompt_tokens":3,"completion_tokens":-9223372036854775808,"prompt_tokens_details":"none"}`:         {InputTokens: 3},
		`{"prompt_tokens":9223372036854775808,"completion_tokens":4,"prompt_tokens_details":[]}`:              {OutputTokens: 4},
		`{"prompt_tokens":{},"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":true}}`:           {OutputTokens: 4},
		`{"prompt_tokens":1e3,"completion_tokens":4,"prompt_cache_hit_tokens":2}`:                             {OutputTokens: 4, CachedTokens: 2},
		`{"prompt_tokens":5,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":3,"other":[1.5]}}`: {InputTokens: 5, OutputTokens: 4, CachedTokens: 3},
		`[]`: {}, `"none"`: {}, `7`: {}, `null`: {},
	} {
		last := `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":` + usage + `}`

		a, err := play(t, t.Context(), tape{bytes: stream(delta(`{"content":"x"}`), last, "[DONE]")})

		if err != nil || a.Finish != model.FinishStop || a.Message.Text() != "x" || a.Usage != want {
			t.Errorf("%s: got %+v, %v; want usage %+v", usage, a, err, want)
		}
	}
}
