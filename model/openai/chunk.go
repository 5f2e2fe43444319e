package openai

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
)

// The wire of a chunk, as far as it is used.
type (
	chunk struct {
		Model   string          `json:"model"`
		Choices []choice        `json:"choices"` // empty or null in the last one, which holds usage
		Usage   json.RawMessage `json:"usage"`
		Error   json.RawMessage `json:"error"`
	}
	choice struct {
		Index        int             `json:"index"`
		Delta        delta           `json:"delta"`
		FinishReason string          `json:"finish_reason"`
		Error        json.RawMessage `json:"error"`
	}
	delta struct {
		Content          string  `json:"content"`
		Refusal          string  `json:"refusal"`
		ReasoningContent string  `json:"reasoning_content"` // DeepSeek, llama.cpp, older vLLM
		Reasoning        string  `json:"reasoning"`         // OpenRouter, Ollama, newer vLLM; some send both, alike
		ToolCalls        []piece `json:"tool_calls"`
	}
)

// piece is what a chunk brings of one call. The first of a call has its id and name.
type piece struct {
	Index    *int   `json:"index"` // nil: the server does not count its calls
	ID       string `json:"id"`
	Function struct {
		Name      string    `json:"name"`
		Arguments arguments `json:"arguments"`
	} `json:"function"`
}

// arguments are a piece of JSON text. A server that sends the object itself means its text.
type arguments string

func (a *arguments) UnmarshalJSON(text []byte) error {
	if bytes.Equal(text, []byte("null")) {
		return nil
	}
	if text[0] != '"' {
		*a = arguments(text)
		return nil
	}
	return perdure.DecodeKnownJSON(text, (*string)(a))
}

// decode reads a chunk. Text that is no JSON was cut on its way: Unavailable. JSON of another form is Processing.
func decode(text []byte) (chunk, *model.Error) {
	var c chunk
	carried, changed := carry(text)
	if err := perdure.DecodeKnownJSON(carried, &c); err != nil {
		if !json.Valid(carried) {
			return c, &model.Error{Code: model.Unavailable, Text: "the stream broke inside of a chunk", Err: err}
		}
		return c, &model.Error{Code: model.Processing, Text: "the server sent a chunk of another form than Chat Completions: " + err.Error(), Err: err}
	}
	if changed {
		for i := range c.Choices {
			c.Choices[i].Delta.uncarry()
		}
	}
	return c, nil
}

func (d *delta) uncarry() {
	for _, s := range []*string{&d.Content, &d.Refusal, &d.ReasoningContent, &d.Reasoning} {
		*s = uncarry(*s)
	}
	for i := range d.ToolCalls {
		arguments := (*string)(&d.ToolCalls[i].Function.Arguments)
		*arguments = uncarry(*arguments)
	}
}

// problem returns the error that a chunk holds; nil: none.
func (c chunk) problem() json.RawMessage {
	all := []json.RawMessage{c.Error}
	for _, choice := range c.Choices {
		all = append(all, choice.Error)
	}
	for _, e := range all {
		if len(e) > 0 && string(e) != "null" && string(e) != `""` {
			return e
		}
	}
	return nil
}

// larger returns usage with what text says of it, no count smaller than before. What is no whole number there counts
// for nothing: no answer is lost because its bill cannot be read.
func larger(than perdure.Usage, text json.RawMessage) perdure.Usage {
	var u struct {
		Prompt     json.RawMessage `json:"prompt_tokens"`
		Completion json.RawMessage `json:"completion_tokens"`
		Details    json.RawMessage `json:"prompt_tokens_details"`
		CacheHit   json.RawMessage `json:"prompt_cache_hit_tokens"` // DeepSeek
	}
	if perdure.DecodeKnownJSON(text, &u) != nil {
		return than
	}
	var details struct {
		Cached json.RawMessage `json:"cached_tokens"`
	}
	if perdure.DecodeKnownJSON(u.Details, &details) != nil {
		details.Cached = nil
	}
	return perdure.Usage{
		InputTokens:  max(than.InputTokens, count(u.Prompt)),
		OutputTokens: max(than.OutputTokens, count(u.Completion)),
		CachedTokens: max(than.CachedTokens, count(u.CacheHit), count(details.Cached)),
	}
}

// count returns a whole number, and 0 for anything else.
func count(text json.RawMessage) int64 {
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
