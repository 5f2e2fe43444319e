package openai

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
)

// The chunk of the protocol, as far as it is used.
type (
	chunk struct {
		Model   string          `json:"model"`
		Choices []choice        `json:"choices"` // empty or null in the last chunk, which has the usage
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
		Reasoning        string  `json:"reasoning"`         // OpenRouter, Ollama, newer vLLM; some send both alike
		ToolCalls        []piece `json:"tool_calls"`
	}
)

// piece is the part of a call in a chunk. The first piece of a call has id and name.
type piece struct {
	Index    *int   `json:"index"` // nil: the server does not number its calls
	ID       string `json:"id"`
	Function struct {
		Name      string    `json:"name"`
		Arguments arguments `json:"arguments"`
	} `json:"function"`
}

// arguments are a piece of JSON text. If a server sends the object itself, its text is used.
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

// decode decodes a chunk. Text that is not JSON was cut off on its way and is Unavailable. JSON of
// another form is Processing.
func decode(text []byte) (chunk, *model.Error) {
	var c chunk
	carried, changed := encodeBroken(text)
	if err := perdure.DecodeKnownJSON(carried, &c); err != nil {
		if !json.Valid(carried) {
			return c, &model.Error{Code: model.Unavailable, Text: "the stream broke inside a chunk", Err: err}
		}
		return c, &model.Error{Code: model.Processing,
			Text: "the server sent a chunk that is not Chat Completions: " + err.Error(), Err: err}
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
		*s = decodeBroken(*s)
	}
	for i := range d.ToolCalls {
		arguments := (*string)(&d.ToolCalls[i].Function.Arguments)
		*arguments = decodeBroken(*arguments)
	}
}

// problem returns the error in a chunk, or nil.
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

// raisedUsage returns usage raised to the counts in text; no count shrinks. Values that are not
// integers are ignored, so that unreadable usage does not cost the answer.
func raisedUsage(than perdure.Usage, text json.RawMessage) perdure.Usage {
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

// count returns an integer, or 0 for anything else.
func count(text json.RawMessage) int64 {
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
