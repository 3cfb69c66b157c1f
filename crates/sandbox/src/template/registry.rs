//! Templates that a server has.

use std::future::{Future, IntoFuture};
use std::pin::Pin;

use futures_util::{Stream, TryStreamExt};
use oncebox_protocol::api::{self, AssignedTags, TemplateTag, TemplateWithBuilds};
use oncebox_protocol::operations;

use super::{BuildTemplate, Template, TemplateBuild};
use crate::Client;
use crate::client::{ApiCall, parse};
use crate::error::Error;
use crate::paged::{PAGE_SIZE, Pager};

/// The templates of an account: see [`Client::templates`].
#[derive(Clone, Copy, Debug)]
pub struct Templates<'a> {
    client: &'a Client,
}

impl Client {
    /// Builds templates, and looks after those that are there.
    pub fn templates(&self) -> Templates<'_> {
        Templates { client: self }
    }
}

impl<'a> Templates<'a> {
    /// Builds a template under a name, `name` or `name:tag`. Await it, or [start](BuildTemplate::start) it.
    ///
    /// ```no_run
    /// # async fn example(client: oncebox::Client) -> Result<(), oncebox::Error> {
    /// use oncebox::{BuildEvent, Template};
    ///
    /// let recipe = Template::from_base_image().run("echo built > /home/user/built");
    /// let build = client.templates().build(&recipe, "built:v1").cpu_count(2).on_event(|event| {
    ///     if let BuildEvent::Log(entry) = event {
    ///         println!("{}", entry.message);
    ///     }
    /// });
    /// let built = build.await?;
    /// let sandbox = oncebox::Sandbox::create(&client).template(built.template_id()).await?;
    /// # Ok(()) }
    /// ```
    pub fn build(&self, template: &Template, name: impl Into<String>) -> BuildTemplate {
        BuildTemplate::new(self.client, template, name.into())
    }

    /// A build by its ids, in whatever process it was started.
    pub fn known_build(&self, template_id: &str, build_id: &str) -> TemplateBuild {
        TemplateBuild::known(self.client, template_id, build_id)
    }

    /// Whether a template of this name is there, also when it is another team's.
    ///
    /// # Errors
    ///
    /// When the server could not be asked.
    pub async fn exists(&self, name: &str) -> Result<bool, Error> {
        let call = ApiCall::new(&operations::GET_TEMPLATE_ALIAS, "look for the template", [name]);
        match self.client.call(call).await {
            Ok(_) => Ok(true),
            // Protocol fact: it exists, and is somebody else's.
            Err(error) if error.status() == Some(403) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// All templates.
    pub fn list(&self) -> ListTemplates {
        ListTemplates { client: self.client.clone() }
    }

    /// A template with its builds.
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is none of this name or id.
    pub async fn info(&self, template: &str) -> Result<TemplateWithBuilds, Error> {
        const ACTION: &str = "describe the template";
        parse(ACTION, &self.client.call(ApiCall::new(&operations::GET_TEMPLATE, ACTION, [template])).await?)
    }

    /// Deletes a template; `false`: there is none of this name or id (any more).
    ///
    /// # Errors
    ///
    /// When the server could not be asked.
    pub async fn delete(&self, template: &str) -> Result<bool, Error> {
        self.client
            .call_unless_missing(ApiCall::new(&operations::DELETE_TEMPLATE, "delete the template", [template]))
            .await
    }

    /// Lets other teams use a template, or no longer. Returns its names.
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is none of this name or id.
    pub async fn publish(&self, template: &str, public: bool) -> Result<Vec<String>, Error> {
        let action = if public { "publish the template" } else { "withdraw the template" };
        let body = api::UpdateTemplate { public: Some(public) };
        let call = ApiCall::new(&operations::UPDATE_TEMPLATE, action, [template]).json(&body)?;
        Ok(parse::<api::UpdatedTemplate>(action, &self.client.call(call).await?)?.names)
    }

    /// Lets tags point to the build that `target` (`name:tag`) names.
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such build.
    pub async fn assign_tags<S: Into<String>>(
        &self,
        target: &str,
        tags: impl IntoIterator<Item = S>,
    ) -> Result<AssignedTags, Error> {
        const ACTION: &str = "assign tags";
        let body = api::AssignTags { target: target.to_owned(), tags: some(tags)? };
        let call = ApiCall::new(&operations::ASSIGN_TEMPLATE_TAGS, ACTION, []).json(&body)?;
        parse(ACTION, &self.client.call(call).await?)
    }

    /// Removes tags from a template, by its name.
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such template.
    pub async fn remove_tags<S: Into<String>>(
        &self,
        name: &str,
        tags: impl IntoIterator<Item = S>,
    ) -> Result<(), Error> {
        let body = api::RemoveTags { name: name.to_owned(), tags: some(tags)? };
        let call = ApiCall::new(&operations::REMOVE_TEMPLATE_TAGS, "remove tags", []).json(&body)?;
        self.client.call(call).await.map(drop)
    }

    /// The tags of a template.
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is none of this name or id.
    pub async fn tags(&self, template: &str) -> Result<Vec<TemplateTag>, Error> {
        const ACTION: &str = "list tags";
        parse(ACTION, &self.client.call(ApiCall::new(&operations::LIST_TEMPLATE_TAGS, ACTION, [template])).await?)
    }
}

/// A list of templates about to be asked for: see [`Templates::list`]. Await it for all of them.
#[derive(Clone, Debug)]
#[must_use = "a list does nothing until it is awaited"]
pub struct ListTemplates {
    client: Client,
}

impl ListTemplates {
    /// The templates, one by one, page after page as they are asked for.
    pub fn stream(self) -> impl Stream<Item = Result<api::Template, Error>> + Send {
        Pager::new(self.client, &operations::LIST_TEMPLATES, "list templates", PAGE_SIZE).stream()
    }
}

impl IntoFuture for ListTemplates {
    type Output = Result<Vec<api::Template>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.stream().try_collect())
    }
}

fn some<S: Into<String>>(tags: impl IntoIterator<Item = S>) -> Result<Vec<String>, Error> {
    let tags: Vec<String> = tags.into_iter().map(Into::into).collect();
    if tags.is_empty() {
        return Err(Error::invalid("tags: none is named"));
    }
    Ok(tags)
}
