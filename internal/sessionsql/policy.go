package sessionsql

import (
	"cmp"
	"slices"
	"strings"

	driver "modernc.org/sqlite"
)

// mode tells on whose behalf a statement is compiled.
type mode int

const (
	internalMode mode = iota // a statement of the runtime itself
	readMode                 // a statement of the model that may only read
	collectMode              // the same, embedded in the runtime's statement that collects its rows
	writeMode                // a statement of the model that may write
)

// policy decides, while a statement is compiled, what the statement may do. Only the user of its
// connection uses it.
type policy struct {
	mode   mode
	denied string // why the statement was refused; suitable for the model
	writes bool   // whether the statement changes the database
}

// begin sets the mode for the next statement and resets the result of the last one.
func (p *policy) begin(m mode) { *p = policy{mode: m} }

// readOnlyPragmas only read, with any argument.
var readOnlyPragmas = []string{
	"table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo",
	"foreign_key_list", "foreign_key_check", "integrity_check", "quick_check",
}

// barePragmas only read when they have no argument.
var barePragmas = []string{"page_count", "page_size", "freelist_count", "max_page_count", "user_version",
	"foreign_keys", "encoding"}

// bannedFunctions access data outside the database, or take time quadratic in the length of their
// arguments without a way to interrupt them.
var bannedFunctions = []string{"load_extension", "fts3_tokenizer", "json_patch", "rtreecheck", "sqlite_dbpage"}

// operation is one operation of a statement as SQLite reports it to the authorizer.
type operation struct {
	action        driver.AuthorizerActionCode
	first, second string
	temp          bool // in the temporary database
}

// authorize is the authorizer (SQ1). It denies every operation that it does not know.
func (p *policy) authorize(o operation) driver.AuthorizerReturnCode {
	if p.mode == internalMode {
		return driver.AuthorizerOK
	}
	reason := p.denial(o)
	if reason == "" {
		return driver.AuthorizerOK
	}
	p.denied = cmp.Or(p.denied, reason)
	return driver.AuthorizerDeny
}

// tempDenied refuses temporary objects: they would disappear, without notice, whenever the
// connection is closed.
const tempDenied = "Not allowed here: temporary tables, views, indexes and triggers. Create ordinary ones, and drop " +
	"them afterwards."

// denial returns why an operation is denied, or an empty text if it is allowed.
func (p *policy) denial(o operation) string {
	switch o.action {
	case driver.AuthSelect, driver.AuthRead, driver.AuthRecursive:
		return ""
	case driver.AuthFunction:
		return p.denyFunction(strings.ToLower(o.second))
	case driver.AuthPragma:
		return denyPragma(strings.ToLower(o.first), o.second)
	case driver.AuthAttach:
		return "Not allowed here: ATTACH, VACUUM and VACUUM INTO. A statement works on one database; to use " +
			"another one, name it in the call."
	case driver.AuthDetach:
		return "Not allowed here: DETACH."
	case driver.AuthTransaction, driver.AuthSavepoint:
		return "Not allowed here: BEGIN, COMMIT, ROLLBACK, SAVEPOINT and RELEASE. Each statement is a transaction " +
			"of its own."
	case driver.AuthCreateTempIndex, driver.AuthCreateTempTable, driver.AuthCreateTempTrigger,
		driver.AuthCreateTempView,
		driver.AuthDropTempIndex, driver.AuthDropTempTable, driver.AuthDropTempTrigger, driver.AuthDropTempView:
		return tempDenied
	case driver.AuthCreateVTable, driver.AuthDropVTable:
		return "Not allowed here: virtual tables."
	case driver.AuthCreateTable, driver.AuthCreateIndex, driver.AuthCreateTrigger, driver.AuthCreateView:
		if o.temp {
			return tempDenied
		}
	}
	return p.denyChange(o.action)
}

// denyChange decides on operations that change a database.
func (p *policy) denyChange(action driver.AuthorizerActionCode) string {
	changes := []driver.AuthorizerActionCode{
		driver.AuthInsert, driver.AuthUpdate, driver.AuthDelete, driver.AuthAlterTable, driver.AuthReindex,
		driver.AuthAnalyze, driver.AuthCreateTable, driver.AuthCreateIndex, driver.AuthCreateTrigger,
		driver.AuthCreateView, driver.AuthDropTable, driver.AuthDropIndex, driver.AuthDropTrigger,
		driver.AuthDropView,
	}
	switch {
	case !slices.Contains(changes, action):
		return "Not allowed here."
	case p.mode != writeMode:
		return "This statement changes the database. Only statements that read are allowed here; the tool for others is sql_execute."
	}
	p.writes = true
	return ""
}

func (p *policy) denyFunction(name string) string {
	banned := slices.Contains(bannedFunctions, name) || strings.HasPrefix(name, "geopoly_") ||
		strings.HasPrefix(name, "fts5")
	if banned || name == rowFunction && p.mode != collectMode {
		return "Not allowed here: the function " + name + "."
	}
	return ""
}

func denyPragma(name, argument string) string {
	if slices.Contains(readOnlyPragmas, name) || argument == "" && slices.Contains(barePragmas, name) {
		return ""
	}
	return "Not allowed here: PRAGMA " + name + ". Allowed are " + strings.Join(readOnlyPragmas, ", ") +
		", and without a value " +
		strings.Join(barePragmas, ", ") + "."
}
