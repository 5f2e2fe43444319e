package openai_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/model/modeltest"
	"github.com/perdure/perdure/model/openai"
	"github.com/perdure/perdure/model/openai/openaitest"
	"github.com/perdure/perdure/model/scripted"
)

// TestLaws is not parallel, because one of the laws counts goroutines.
func TestLaws(t *testing.T) {
	modeltest.Run(t, func(t *testing.T, s modeltest.Situation) model.Model {
		t.Helper()
		if s.Thinking != "" || s.Error != nil && s.Error.Code == model.Stalled {
			return nil // the wire has no signatures, and a stall is a silence
		}
		return serve(t, raw(s), openai.Config{})
	})
}

// TestLawsThroughServer keeps the laws with openaitest in between.
func TestLawsThroughServer(t *testing.T) {
	modeltest.Run(t, func(t *testing.T, s modeltest.Situation) model.Model {
		t.Helper()
		if s.Thinking != "" || s.Error != nil && s.Error.Code == model.Stalled {
			return nil
		}
		m, err := scripted.New(scripted.Script{Steps: []scripted.Step{{Reply: replyOf(s), Repeat: true}}})
		if err != nil {
			t.Fatal(err)
		}
		return serve(t, openaitest.New(m, openaitest.Config{Key: "sk-test"}), openai.Config{Key: "sk-test"})
	})
}

// replyOf is the reply that does what the provider of a situation does.
func replyOf(s modeltest.Situation) scripted.Reply {
	if s.Error != nil {
		return scripted.Reply{Error: &scripted.Failure{Code: s.Error.Code, Text: s.Error.Text, RetryAfter: s.Error.RetryAfter}}
	}
	r := scripted.Reply{Text: s.Text, Finish: s.Finish, Usage: &s.Usage}
	if s.SplitCharacters {
		r.Chunk = 1
	}
	before := len(s.Text)
	for i, c := range s.Calls {
		r.Calls = append(r.Calls, scripted.Call{ID: string(c.ID), Name: c.Name, RawArgs: string(c.Arguments)})
		if i < len(s.Calls)-1 {
			before += len(c.Arguments)
		}
	}
	switch {
	case s.CutText > 0:
		r.CutAfterBytes = &s.CutText
	case s.CutArguments > 0:
		r.CutAfterBytes = new(before + s.CutArguments)
	case s.Stall:
		r.Calls = []scripted.Call{{Name: "never"}} // is what never comes
		r.Pace = time.Hour
		if s.Text == "" {
			r.Stall = time.Hour
		}
	}
	return r
}

// raw is a provider that writes the wire by itself: each chunk in three writes, and, where a
// situation says so, text and arguments byte by byte, so that a chunk holds half a character.
func raw(s modeltest.Situation) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.Error != nil {
			rawError(s.Error).ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		p := &provider{w: w, flush: http.NewResponseController(w).Flush}
		p.flush()
		if p.situation(s) {
			<-r.Context().Done()
		}
	})
}

type provider struct {
	w     http.ResponseWriter
	flush func() error
}

// situation plays a situation, and reports whether it ends in a stall.
func (p *provider) situation(s modeltest.Situation) bool {
	text := s.Text
	if s.CutText > 0 {
		text = text[:s.CutText]
	}
	size := 7 // splits characters too
	if s.SplitCharacters {
		size = 1
	}
	for i := 0; i < len(text); i += size {
		p.chunk(fmt.Sprintf(`{"model":"m","choices":[{"index":0,"delta":{"content":"%s"}}],"usage":{"prompt_tokens":%d,"completion_tokens":%d}}`,
			quoted(text[i:min(i+size, len(text))]), s.Usage.InputTokens, min(int64(i), s.Usage.OutputTokens)))
	}
	if s.CutText > 0 {
		panic(http.ErrAbortHandler)
	}
	if s.Stall {
		return true
	}
	for i, c := range s.Calls {
		p.chunk(fmt.Sprintf(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":%d,"id":"%s","type":"function","function":{"name":"%s","arguments":""}}]}}]}`, i, c.ID, c.Name))
		args := string(c.Arguments)
		if s.CutArguments > 0 && i == len(s.Calls)-1 {
			args = args[:s.CutArguments]
		}
		for j := 0; j < len(args); j += 5 {
			p.chunk(fmt.Sprintf(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":%d,"function":{"arguments":"%s"}}]}}]}`, i, quoted(args[j:min(j+5, len(args))])))
		}
	}
	if s.CutArguments > 0 {
		panic(http.ErrAbortHandler)
	}
	reasons := map[model.Finish]string{model.FinishStop: "stop", model.FinishCalls: "tool_calls", model.FinishLength: "length", model.FinishRefusal: "content_filter"}
	p.chunk(finish(reasons[s.Finish]))
	p.chunk(`{"choices":[],"usage":{"prompt_tokens":0,"completion_tokens":0}}`)
	p.chunk(fmt.Sprintf(`{"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}}}`,
		s.Usage.InputTokens, s.Usage.OutputTokens, s.Usage.CachedTokens))
	p.chunk("[DONE]")
	return false
}

func (p *provider) chunk(text string) {
	frame := "data: " + text + "\n\n"
	third := len(frame) / 3
	for _, piece := range []string{frame[:third], frame[third : 2*third], frame[2*third:]} {
		fmt.Fprint(p.w, piece)
		p.flush()
	}
}

// quoted writes bytes as they stand into a JSON string.
func quoted(s string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s)
}

// rawError answers as the documentation of OpenAI and others says.
func rawError(e *model.Error) http.Handler {
	one := func(status int, kind, code string) http.Handler {
		header := map[string]string{}
		if e.RetryAfter > 0 {
			header["Retry-After"] = fmt.Sprint(int(e.RetryAfter.Seconds()))
		}
		return answering(status, header, fmt.Sprintf(`{"error":{"message":"%s","type":"%s","param":null,"code":%s}}`, e.Text, kind, code))
	}
	switch e.Code {
	case model.RateLimited:
		return one(429, "requests", `"rate_limit_exceeded"`)
	case model.Unavailable:
		return one(529, "overloaded", "null")
	case model.TooLarge:
		return one(400, "invalid_request_error", `"context_length_exceeded"`)
	case model.InvalidToolSchema:
		return one(400, "invalid_request_error", `"invalid_function_parameters"`)
	case model.Misconfigured:
		return one(401, "invalid_request_error", `"invalid_api_key"`)
	case model.QuotaExhausted:
		return one(429, "insufficient_quota", `"insufficient_quota"`)
	case model.UsageLimit:
		return one(429, "usage_limit_reached", "null")
	case model.ModelUnavailable:
		return one(404, "invalid_request_error", `"model_not_found"`)
	}
	return one(418, "teapot", "null")
}
