package tool

import (
	"context"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
)

// Sessions gives access to the session itself (the ports "Session store" and "Session mutator").
type Sessions interface {
	// SetTitle sets the session's title. Invalid: it is empty or has more than 512 bytes.
	SetTitle(ctx context.Context, title string) error
	// Title returns the session's title.
	Title(ctx context.Context) (string, error)
	// Context reports what fills the model's context window, section by section.
	Context(ctx context.Context) (ContextReport, error)
}

// ContextReport describes the use of a context window. Tokens are estimated.
type ContextReport struct {
	Sections []ContextSection `json:"sections"`
	Tokens   int              `json:"tokens"`
	Limit    int              `json:"limit"` // 0: unknown
}

// ContextSection is one of system_prompt, tools, user, agent, tool_results, notifications and
// compacted.
type ContextSection struct {
	Name   string `json:"name"`
	Items  int    `json:"items"`
	Bytes  int    `json:"bytes"`
	Tokens int    `json:"tokens"`
}

// Messages gives access to the session's transcript, rebuilt from its journal (the port "Message
// retriever").
type Messages interface {
	// Messages returns up to limit messages after a sequence number, in order; 0 means 100, at most
	// 1,000.
	Messages(ctx context.Context, after int64, limit int) (MessagePage, error)
}

// MessagePage is a piece of a transcript.
type MessagePage struct {
	Messages []NumberedMessage `json:"messages"`
	Source   int64             `json:"source_sequence"` // the highest sequence number that was read
	More     bool              `json:"more"`
}

// NumberedMessage is a message with the sequence number of its event.
type NumberedMessage struct {
	Seq int64 `json:"sequence"`
	perdure.Message
}

// Utility is a small model for the internal work of tools, without tools of its own. It is metered
// on the session's budget (the port "Utility model").
type Utility interface {
	// Complete answers a prompt. The error is that of the model.
	Complete(ctx context.Context, o UtilityRequest) (string, error)
}

// UtilityRequest is a request to a utility model.
type UtilityRequest struct {
	System    string
	Prompt    string
	MaxTokens int // 0: 1,024
}

// Credentials gives tools the keys of providers (the port "Provider credential store"). Tools never
// read the environment.
type Credentials interface {
	// Credential returns the default key for a kind of provider, such as openai. NotFound: there is
	// none, and no other is used instead.
	Credential(ctx context.Context, kind string) (Credential, error)
}

// Credential is the key of a provider. It must never be written anywhere.
type Credential struct {
	Key     string
	BaseURL string // empty: the provider's own
}

// String hides the key.
func (Credential) String() string { return "[credential]" }

// GoString hides the key.
func (Credential) GoString() string { return "[credential]" }

// Budgets reports what the session may still spend (the port "Budget checker").
type Budgets interface {
	// CheckBudgets reports all budgets that apply to the session, the worst one first.
	CheckBudgets(ctx context.Context) (budget.Report, error)
}
