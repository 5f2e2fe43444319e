package session

import (
	"context"
	_ "embed" // the text that the model reads
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// MessagesCapability is the capability of search_messages.
const MessagesCapability = "session_messages"

const searchMessagesName = "search_messages"

//go:embed search_messages.md
var searchMessagesText string

const (
	messagePage  = 1000
	excerptBytes = 600 // of one message
	beforeMatch  = 200 // bytes of the excerpt before the match
)

type searchMessagesIn struct {
	Query string `json:"query" minLength:"1" maxLength:"200" jsonschema:"The text to look for"`
	Limit int    `json:"limit,omitempty" min:"1" max:"50" default:"10" jsonschema:"How many messages to return at most"`
}

type foundMessage struct {
	Seq  int64        `json:"sequence" jsonschema:"Its position in the session"`
	Role perdure.Role `json:"role"`
	Text string       `json:"text" jsonschema:"The text around the first match"`
}

type searchMessagesOut struct {
	Messages []foundMessage `json:"messages"`
	Searched int            `json:"searched" jsonschema:"How many messages the conversation has"`
	Omitted  int            `json:"left_out,omitempty" jsonschema:"The number of older matches: raise limit, or search for something rarer"`
}

// SearchMessages returns the tool that searches the session's own conversation. It finds what a
// summary left out.
func SearchMessages() tool.Tool {
	yes := true
	return tool.New(tool.Spec{
		Name:        searchMessagesName,
		DisplayName: "Search Messages",
		Description: strings.TrimSpace(searchMessagesText),
		Class:       perdure.Pure,
		SessionOnly: true,
		NeedsEnv:    true,
		Narration:   tool.Narration{Started: "Searching the messages for {query}", Completed: "Searched the messages for {query}", Failed: "Could not search the messages for {query}"},
		Hints:       tool.Hints{ReadOnly: &yes, Idempotent: &yes, CapabilityID: MessagesCapability},
	}, searchMessages)
}

func searchMessages(ctx context.Context, in searchMessagesIn, env tool.Env) (tool.Result, error) {
	if env.Messages == nil {
		return tool.Missing("Message retriever", searchMessagesName+" requires it to read the conversation."), nil
	}
	query, err := regexp.Compile("(?i)" + regexp.QuoteMeta(strings.ToValidUTF8(in.Query, "�")))
	if err != nil {
		return tool.Result{}, fmt.Errorf("search messages: %w", err)
	}
	out, search := searchMessagesOut{Messages: []foundMessage{}}, searcher{query: query, own: map[perdure.CallID]bool{}}
	for after, more := int64(0), true; more; {
		page, err := env.Messages.Messages(ctx, after, messagePage)
		if err != nil {
			return tool.Result{}, fmt.Errorf("search messages: %w", err)
		}
		for _, m := range page.Messages {
			out.Searched++
			if at, text, ok := search.match(m.Message); ok {
				out.Messages = append(out.Messages, foundMessage{Seq: m.Seq, Role: m.Role, Text: excerpt(text, at)})
			}
		}
		if omitted := len(out.Messages) - in.Limit; omitted > 0 { // the newest stay
			out.Messages, out.Omitted = slices.Delete(out.Messages, 0, omitted), out.Omitted+omitted
		}
		after, more = page.Source, page.More
	}
	slices.Reverse(out.Messages)
	return tool.Success(out), nil
}

// searcher finds a query in messages, in their order. It skips searches and what they returned.
type searcher struct {
	query *regexp.Regexp
	own   map[perdure.CallID]bool // the calls of this tool
}

// match returns the first part of a message that contains the query, and where.
func (s searcher) match(m perdure.Message) (at int, text string, ok bool) {
	for _, part := range m.Parts {
		text := part.Text
		switch {
		case part.Call != nil && part.Call.Name == searchMessagesName:
			s.own[part.Call.ID] = true
			continue
		case part.Result != nil && s.own[part.Result.CallID]:
			continue
		case part.Call != nil:
			text = part.Call.Name + " " + string(part.Call.Arguments)
		case part.Result != nil:
			text = part.Result.Error
			if text == "" {
				text = string(part.Result.Result)
			}
		}
		if found := s.query.FindStringIndex(text); found != nil {
			return found[0], text, true
		}
	}
	return 0, "", false
}

// excerpt returns the text around a position, cut between characters.
func excerpt(text string, at int) string {
	from := max(at-beforeMatch, 0)
	for from > 0 && !utf8.RuneStart(text[from]) {
		from--
	}
	to := min(from+excerptBytes, len(text))
	for to < len(text) && !utf8.RuneStart(text[to]) {
		to--
	}
	shown := strings.ToValidUTF8(text[from:to], "�")
	if from > 0 {
		shown = "… " + shown
	}
	if to < len(text) {
		shown += " …"
	}
	return shown
}
