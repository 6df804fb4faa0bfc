//! The variable `authorizer` of expressions: RBAC for the user of the request or for a service account.

use std::{fmt, sync::Arc};

use capstan_apiserver_schema::admission::{Authorizer, Decision, Question};

use crate::{auth::authorize, call::Call, plane::Plane, rbac::Access, user::User};

struct Rbac {
    plane: Arc<Plane>,
    user: User,
}

impl fmt::Debug for Rbac {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Rbac").field("user", &self.user.name).finish_non_exhaustive()
    }
}

/// The authorizer of a request.
pub(super) fn authorizer(call: &Call) -> Arc<dyn Authorizer> {
    Arc::new(Rbac { plane: Arc::clone(&call.plane), user: call.user.clone() })
}

impl Authorizer for Rbac {
    fn decide(&self, question: &Question) -> Decision {
        let Question { service_account, verb, path, group, resource, subresource, namespace, name } =
            question;
        let access = match path {
            Some(path) => Access::Path { verb, path },
            None => Access::Resource { verb, group, namespace, resource, subresource, name },
        };
        let account = service_account.as_ref();
        let account = account.map(|(namespace, name)| User::service_account(namespace, name, ""));
        let decided = authorize::decide(&self.plane.store, account.as_ref().unwrap_or(&self.user), &access);
        Decision { allowed: decided.allowed, reason: decided.reason }
    }
}
