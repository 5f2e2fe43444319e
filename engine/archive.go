package engine

import (
	"context"
	"io"

	"github.com/perdure/perdure"
)

// Archives branches sessions, and moves them from store to store.
type Archives interface {
	// Fork starts a session with what was said in another one, up to an event of that. Nothing of the other changes, and
	// nothing that it did is done again: results that are recorded are taken over, also those that came after the
	// event. What is not known is said to be unknown, and what never ran that it did not. Background work stays
	// with the other session. The session's files are copied; those in a folder of the host are not, and both
	// sessions work in the same folder. The fork is at rest until somebody speaks to it, and is nobody's subagent.
	// NotFound: no such session. Invalid: no such event, or no such word for the effects. Conflict: f.ID is
	// that of another session.
	Fork(ctx context.Context, id perdure.SessionID, f Fork) (Session, error)
	// Export writes a session as one file of JSON lines, with those of its subagents, as of one moment. The file is
	// confidential: it holds the session's secret, its files and all that was said. The same state is the same
	// bytes. Nothing is written before everything is read; all of it is in memory meanwhile. After an error of w, w
	// may have part of it, which Import refuses. NotFound: no such session. Invalid: it is a subagent, whose root
	// is to be exported. Limit: a row is too large for a line.
	Export(ctx context.Context, id perdure.SessionID, w io.Writer) error
	// Import adds what Export wrote, whole or not at all, and returns the session. Exported again, it is the same
	// bytes, as long as nobody speaks to it. The file, up to 1 GiB, and its rows are in memory at once. Conflict: the
	// session is there already, or it was at work when it was exported and how does not take it over. Invalid: the
	// file was cut or changed, or a later version wrote it. Limit: it is too large. Unavailable: what a deleted session of
	// that id left is still being removed.
	Import(ctx context.Context, r io.Reader, how Import) (Session, error)
}

// Fork says what is forked, and what the fork may do.
type Fork struct {
	ID      perdure.SessionID // of the new session; empty: one is made. The same fork again under the same id is one
	At      int64             // the seq of the last event that counts; 0: the last one there is
	Effects string            // perdure.ForkAsks or perdure.ForkDryRun; empty: ForkAsks
	Title   string            // empty: after the other session's
}

// Import says how a session is taken in.
type Import struct {
	// TakeOver says that the copy which the file was made of is gone for ever. Work that was under way is then taken up
	// as after a crash: without it, both copies would go on, and effects could happen twice. A session that was at
	// rest needs none.
	TakeOver bool
	// Check is asked with the journal of each session before anything is kept, and its error refuses the file as it is; nil: all is
	// taken. It is for who lets others import; one that is given to a client of a server is not asked.
	Check func(journal []perdure.Event) error
}
