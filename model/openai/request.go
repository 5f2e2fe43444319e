package openai

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"

	"github.com/perdure/perdure/internal/modelwire"
	"github.com/perdure/perdure/model"
)

// The request of the protocol, as far as it is used.
type (
	body struct {
		Model               string         `json:"model"`
		Messages            []message      `json:"messages"`
		Tools               []tool         `json:"tools,omitempty"`
		MaxTokens           int            `json:"max_tokens,omitempty"`
		MaxCompletionTokens int            `json:"max_completion_tokens,omitempty"`
		Stream              bool           `json:"stream"`
		StreamOptions       *streamOptions `json:"stream_options,omitempty"`
	}
	streamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	}
	tool struct {
		Type     string   `json:"type"`
		Function function `json:"function"`
	}
	function struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters"`
	}
)

// post sends a request. An answer of another status than 200 becomes an error, and its body is
// closed. refused is its refusal, if the server refused it.
func (m *Model) post(ctx context.Context, b body) (res *http.Response, refused *modelwire.Refused, err error) {
	if b.Model == "" {
		return nil, nil, &model.Error{Code: model.ModelUnavailable, Text: "neither the request nor Config.Name names a model"}
	}
	text, err := json.Marshal(b)
	if err != nil {
		return nil, nil, &model.Error{Code: model.InvalidToolSchema, Text: "the parameters of a tool are not valid JSON",
			Err: err}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, m.endpoint, bytes.NewReader(text))
	if err != nil {
		return nil, nil, &model.Error{Code: model.Misconfigured, Text: "the request could not be created", Err: err}
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "text/event-stream")
	if !b.Stream {
		r.Header.Set("Accept", "application/json")
	}
	r.Header.Set("User-Agent", "perdure")
	if m.cfg.Key != "" {
		r.Header.Set("Authorization", "Bearer "+m.cfg.Key)
	}
	if res, err = m.client.Do(r); err != nil {
		return nil, nil, m.mask(transportError(err))
	}
	if res.StatusCode == http.StatusOK || res.StatusCode == http.StatusCreated {
		return res, nil, nil
	}
	defer res.Body.Close()
	said := head(res)
	refusal := modelwire.NewRefused(res.StatusCode, said)
	return nil, &refusal, m.mask(statusError(res, said))
}

func (m *Model) body(req model.Request, d dialect) body {
	b := body{Model: cmp.Or(req.Model, m.cfg.Name), Stream: !d.whole}
	b.Messages = messagesOf(req, m.family(b.Model), d.messages)
	if b.Stream && !d.omitUsage {
		b.StreamOptions = &streamOptions{IncludeUsage: true}
	}
	switch limit := cmp.Or(req.MaxTokens, m.cfg.MaxTokens); d.limit {
	case oldLimit:
		b.MaxTokens = limit
	case newLimit:
		b.MaxCompletionTokens = limit
	}
	for _, t := range m.tools.Describe(req.Tools) {
		b.Tools = append(b.Tools, tool{Type: "function",
			Function: function{Name: t.Name, Description: t.Description, Parameters: t.Parameters}})
	}
	return b
}
