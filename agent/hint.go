package agent

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/backend/postgres"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/model"
	"github.com/tidemark-sessions/tidemark/store"
)

// Hint returns how a person goes on after an error, with the commands of tidemark;
// "" if nobody knows.
func Hint(err error) string {
	var holder *store.HeldError
	var refused *model.Error
	var problem *api.Problem
	var newer *tidemark.NewerError
	var away *postgres.ElsewhereError
	switch given := hint.Of(err); {
	case given != "":
		return given
	case errors.As(err, &away) && away.Name != "":
		return "tell this program where its databases are: $TIDEMARK_DATABASES names a file with a line NAME: URL for each"
	case errors.Is(err, postgres.ErrUnavailable):
		return "nothing that was acknowledged is lost; try again when the database is there"
	case errors.As(err, &problem) && problem.Hint != "":
		return problem.Hint
	case errors.As(err, &newer) && newer.Backup != "":
		return "use a newer tidemark, or go back to the copy from before it was upgraded: " + newer.Backup
	case errors.As(err, &newer):
		return "use a newer tidemark; nothing was changed"
	case errors.As(err, &refused):
		return ModelHint(refused)
	case errors.As(err, &holder):
		return fmt.Sprintf("close it there, or read along with: tidemark tail -f %.8s", holder.Lease.Session())
	case errors.Is(err, tidemark.ErrNoStore):
		return "the first entry creates it: tidemark chat, or tidemark import --all"
	case errors.Is(err, tidemark.ErrOnHold):
		return "let it go with: tidemark unhold SESSION"
	case errors.Is(err, tidemark.ErrTrashed):
		return "take it out with: tidemark restore SESSION"
	case errors.Is(err, tidemark.ErrNoSessions):
		return "begin one with: tidemark chat"
	case errors.Is(err, tidemark.ErrNotFound):
		return "see what is there with: tidemark ls -A"
	case errors.Is(err, tidemark.ErrCorrupt):
		return "see all that is damaged with: tidemark verify"
	case errors.Is(err, tidemark.ErrStorage) && errors.Is(err, fs.ErrNotExist):
		return "make the folder first, or name another"
	case errors.Is(err, tidemark.ErrStorage) && errors.Is(err, fs.ErrPermission):
		return "you may not write there: name another place, or see who owns it with: ls -ld"
	case errors.Is(err, tidemark.ErrStorage):
		return "nothing that was acknowledged is lost; make room or check the disk, then try again"
	}
	return ""
}
