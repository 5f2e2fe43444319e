package engine

import (
	"context"
	"io"

	"github.com/perdure/perdure"
)

// MaxArchiveBytes limits an exported session.
const MaxArchiveBytes = 1 << 30

// SessionArchive forks sessions, and exports and imports them between stores.
type SessionArchive interface {
	// Fork creates a session with the transcript of another one, up to an event of that session.
	// The source session does not change, and nothing that it did is done again: recorded results
	// are copied, including results recorded after that event. Calls with an unknown outcome are
	// marked as unknown, and calls that never ran as not run.
	//
	// Background work stays with the source session. The session's files are copied; files in a
	// host directory are not, and both sessions then share that directory. The fork is idle until
	// it receives a message, and it is not a subagent.
	//
	// NotFound: no such session. Invalid: no such event, or f.Effects is not one of its two values.
	// Conflict: f.ID belongs to another session.
	Fork(ctx context.Context, id perdure.SessionID, f Fork) (Session, error)
	// Export writes a session and its subagents as one file of JSON lines, consistent as of one
	// moment. The file is confidential: it contains the session's secrets, its files and its whole
	// transcript. The same state always gives the same bytes.
	//
	// Export holds the whole file in memory and writes only after everything is read. If w fails,
	// it may hold a part of the file, which Import refuses.
	//
	// NotFound: no such session. Invalid: the session is a subagent; export its root. Limit: a row
	// is too large for one line.
	Export(ctx context.Context, id perdure.SessionID, w io.Writer) error
	// Import adds an exported session, completely or not at all, and returns it. Exporting it again
	// gives the same bytes, as long as it receives no input. Import holds the file, up to 1 GiB,
	// and its rows in memory at once.
	//
	// Conflict: the session exists already, or work was running when it was exported and
	// how.TakeOver is false. Invalid: the file is truncated or modified, or a later version wrote
	// it. Limit: it is too large. Unavailable: the remains of a deleted session with this id are
	// still being removed.
	Import(ctx context.Context, r io.Reader, how Import) (Session, error)
}

// Fork selects the part of a session to fork, and what the fork may do.
type Fork struct {
	ID      perdure.SessionID // of the new session, for idempotent retries; empty: a new id
	At      int64             // the seq of the last event to copy; 0: the latest
	Effects string            // perdure.ForkAsks or perdure.ForkDryRun; empty: ForkAsks
	Title   string            // empty: derived from the title of the source session
}

// Import says how to import a session.
type Import struct {
	// TakeOver states that the store which the file was exported from no longer exists. Work that
	// was running is then recovered as after a crash. Otherwise both copies could continue the
	// work, and its effects could happen twice. A session that was idle at the export does not need
	// it.
	TakeOver bool
	// Check receives the journal of each session before anything is stored; its error refuses the
	// file. nil accepts every file. It is meant for callers that import on behalf of others.
	// engine/remote ignores it.
	Check func(journal []perdure.Event) error
}
