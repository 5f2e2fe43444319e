package tool

import (
	"context"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
)

// Sessions is the session itself (the ports "Session store" and "Session mutator").
type Sessions interface {
	// SetTitle sets the session's title, in order with its other writes. Invalid: over 512 bytes, or empty.
	SetTitle(ctx context.Context, title string) error
	// Title returns it.
	Title(ctx context.Context) (string, error)
	// Context says what fills the model's context window, section by section.
	Context(ctx context.Context) (ContextReport, error)
}

// ContextReport is what fills a context window. Tokens are estimated.
type ContextReport struct {
	Sections []ContextSection `json:"sections"`
	Tokens   int              `json:"tokens"`
	Limit    int              `json:"limit"` // 0: not known
}

// ContextSection is one of system_prompt, tools, user, agent, tool_results, notifications and compacted.
type ContextSection struct {
	Name   string `json:"name"`
	Items  int    `json:"items"`
	Bytes  int    `json:"bytes"`
	Tokens int    `json:"tokens"`
}

// Messages is the session's transcript, rebuilt from its journal (the port "Message retriever"; MR1).
type Messages interface {
	// Messages returns up to limit messages after a sequence number, in order; 0 means 100, at most 1,000.
	Messages(ctx context.Context, after int64, limit int) (MessagePage, error)
}

// MessagePage is a piece of a transcript.
type MessagePage struct {
	Messages []NumberedMessage `json:"messages"`
	Source   int64             `json:"source_sequence"` // the highest sequence number seen
	More     bool              `json:"more"`
}

// NumberedMessage is a message and the sequence number of the event that holds it.
type NumberedMessage struct {
	Seq int64 `json:"sequence"`
	perdure.Message
}

// Utility is a small model for a tool's inner work, metered on the session's budget; it has no tools (the port
// "Utility model").
type Utility interface {
	// Complete answers a prompt. The error is the model's.
	Complete(ctx context.Context, o UtilityOrder) (string, error)
}

// UtilityOrder is what a utility model is asked.
type UtilityOrder struct {
	System    string
	Prompt    string
	MaxTokens int // 0: 1,024
}

// Credentials is the keys of providers, for tools that call them (the port "Provider credential store"). Tools never
// read the environment.
type Credentials interface {
	// Credential returns the default key of a kind of provider, openai for instance. NotFound: there is none, and
	// nothing stands in for it.
	Credential(ctx context.Context, kind string) (Credential, error)
}

// Credential opens a provider. It is never written anywhere.
type Credential struct {
	Key     string
	BaseURL string // empty: the provider's own
}

// String keeps the key out of what is printed.
func (Credential) String() string { return "[credential]" }

// GoString keeps the key out of what is printed.
func (Credential) GoString() string { return "[credential]" }

// Budgets is what the session may still spend (the port "Budget checker"; BU4). It only reports.
type Budgets interface {
	// CheckBudgets says how all budgets of the session's tree stand, the worst of them first of all.
	CheckBudgets(ctx context.Context) (budget.Report, error)
}
