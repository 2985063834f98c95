"""Statements: a file for each, with the value, the reader that parses it, and the text that it is written back as."""

from platform_plugin.language.statements.alter import (
    AddColumn,
    Alter,
    Change,
    DropColumn,
    RenameColumn,
    RenameRelation,
    SetDefault,
    SetNullable,
    SetOptions,
    SetType,
)
from platform_plugin.language.statements.comment import Comment
from platform_plugin.language.statements.copy import Copy
from platform_plugin.language.statements.create_sample import CreateSample
from platform_plugin.language.statements.create_schema import CreateSchema
from platform_plugin.language.statements.create_stream import CreateStream, EndStream, Feed
from platform_plugin.language.statements.create_table import CreateHistory, CreateTable
from platform_plugin.language.statements.create_view import CreateView, ViewColumn
from platform_plugin.language.statements.delete import Delete
from platform_plugin.language.statements.describe import Describe
from platform_plugin.language.statements.drop import Drop
from platform_plugin.language.statements.explain import Explain
from platform_plugin.language.statements.insert import Insert
from platform_plugin.language.statements.refresh import RebuildView, RefreshSample, RefreshStream, RefreshView
from platform_plugin.language.statements.select import Select
from platform_plugin.language.statements.show import Show
from platform_plugin.language.statements.statement import Statement
from platform_plugin.language.statements.suspend import ResumeQuery, SuspendQuery
from platform_plugin.language.statements.update import Assignment, Update
from platform_plugin.language.text.names import WrittenName
from platform_plugin.language.text.options import Option

__all__ = [
    "AddColumn",
    "Alter",
    "Assignment",
    "Change",
    "Comment",
    "Copy",
    "CreateHistory",
    "CreateSample",
    "CreateSchema",
    "CreateStream",
    "CreateTable",
    "CreateView",
    "Delete",
    "Describe",
    "Drop",
    "DropColumn",
    "EndStream",
    "Explain",
    "Feed",
    "Insert",
    "Option",
    "RebuildView",
    "RefreshSample",
    "RefreshStream",
    "RefreshView",
    "RenameColumn",
    "RenameRelation",
    "ResumeQuery",
    "Select",
    "SetDefault",
    "SetNullable",
    "SetOptions",
    "SetType",
    "Show",
    "Statement",
    "SuspendQuery",
    "Update",
    "ViewColumn",
    "WrittenName",
]
